/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/report.h"

/* Keys that would change what the runtime answers, which the simulator does not do. The others steer dumps, profiling
   and hardware sizes, of which it has none. */
static const char *const refused_keys[] = {"\"defaultDevice\"", "\"err_msg_mode\""};

static char *read_file(const char *path)
{
    struct stat info;
    FILE *file = stat(path, &info) == 0 && S_ISREG(info.st_mode) ? fopen(path, "rb") : NULL;
    if (file == NULL) {
        return NULL;
    }
    size_t size = (size_t)info.st_size;
    char *text = malloc(size + 1);
    if (text != NULL) {
        text[fread(text, 1, size, file)] = '\0';
    }
    fclose(file);
    return text;
}

/* Not a JSON parser: one object whose brackets and strings close is all that is asked for. */
static int is_json_object(const char *text)
{
    char open[64];
    size_t depth = 0;
    int in_string = 0;
    int ended = 0;
    for (; *text != '\0'; ++text) {
        if (in_string) {
            if (*text == '\\' && text[1] != '\0') {
                ++text;
            } else if (*text == '"') {
                in_string = 0;
            }
        } else if (isspace((unsigned char)*text)) {
            continue;
        } else if (ended || (depth == 0 && *text != '{')) {
            return 0;
        } else if (*text == '"') {
            in_string = 1;
        } else if (*text == '{' || *text == '[') {
            if (depth == sizeof open) {
                return 0;
            }
            open[depth++] = *text;
        } else if (*text == '}' || *text == ']') {
            if (open[--depth] != (*text == '}' ? '{' : '[')) {
                return 0;
            }
            ended = depth == 0;
        }
    }
    return ended;
}

aclError config_read(const char *function, const char *path, char **content)
{
    if (path == NULL || *path == '\0') {
        *content = calloc(1, 1);
        return *content == NULL ? ACL_ERROR_BAD_ALLOC : ACL_SUCCESS;
    }
    char *text = read_file(path);
    if (text == NULL) {
        return sim_fail(ACL_ERROR_INVALID_FILE, function, "configPath is \"%s\"; expected a readable file", path);
    }
    aclError status = ACL_SUCCESS;
    if (!is_json_object(text)) {
        status = sim_fail(ACL_ERROR_PARSE_FILE, function, "\"%s\" is not a JSON object", path);
    }
    for (size_t i = 0; status == ACL_SUCCESS && i < sizeof refused_keys / sizeof *refused_keys; ++i) {
        if (strstr(text, refused_keys[i]) != NULL) {
            status = sim_unsupported(ACL_ERROR_API_NOT_SUPPORT, function, refused_keys[i]);
        }
    }
    if (status != ACL_SUCCESS) {
        free(text);
        return status;
    }
    *content = text;
    return ACL_SUCCESS;
}
