/* SPDX-License-Identifier: Apache-2.0 */
#include "core/wording.h"

#include <stddef.h>
#include <string.h>

static const struct {
    const char *wrong;
    const char *right; /* no longer */
    int is_number;     /* which must not be the end of another */
} wordings[] = {
    {"(nil)", "NULL", 0},
    {"1 bytes", "1 byte", 1},
};

static int is_digit(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

static void replace(char *text, const char *wrong, const char *right, int is_number)
{
    const size_t cut = strlen(wrong) - strlen(right);
    for (char *at = text; (at = strstr(at, wrong)) != NULL; ++at) {
        if (is_number && at > text && is_digit(at[-1])) {
            continue;
        }
        memcpy(at, right, strlen(right));
        memmove(at + strlen(right), at + strlen(right) + cut, strlen(at + strlen(right) + cut) + 1);
    }
}

void sim_wording_polish(char *text)
{
    for (size_t i = 0; i < sizeof wordings / sizeof *wordings; ++i) {
        replace(text, wordings[i].wrong, wordings[i].right, wordings[i].is_number);
    }
}
