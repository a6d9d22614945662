/* SPDX-License-Identifier: Apache-2.0 */
#include "core/origin.h"

#include <ctype.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "aclsim/aclsim.h"

static atomic_ullong made;
static atomic_ullong ticks;
static _Thread_local char label[SIM_LABEL_BYTES];

sim_origin sim_origin_now(const char *function)
{
    sim_origin origin = {atomic_fetch_add(&made, 1) + 1, function, ""};
    memcpy(origin.label, label, sizeof label);
    return origin;
}

void sim_origin_describe(const sim_origin *origin, char text[SIM_ORIGIN_BYTES])
{
    const char *mark = origin->label[0] == '\0' ? "" : "\"";
    snprintf(text, SIM_ORIGIN_BYTES, "number %llu, made by %s%s%s%s%s", (unsigned long long)origin->number,
        origin->function, *mark == '\0' ? "" : " for ", mark, origin->label, mark);
}

uint64_t sim_tick(void)
{
    return atomic_fetch_add(&ticks, 1) + 1;
}

SIM_EXPORT void aclsim_label(const char *text)
{
    size_t length = 0;
    for (; text != NULL && text[length] != '\0' && length < sizeof label - 1; ++length) {
        const unsigned char letter = (unsigned char)text[length];
        const int is_plain = isascii(letter) && isprint(letter) && letter != '"' && letter != '\\';
        label[length] = is_plain ? text[length] : '?';
    }
    label[length] = '\0';
}
