/* SPDX-License-Identifier: Apache-2.0 */
#include "opapi/op_duplicates.h"

#include <stdlib.h>

#include "core/checks.h"

uint64_t odd_tokens_first(uint64_t step, uint64_t tokens)
{
    return step < tokens / 2 ? 2 * step + 1 : 2 * (step - tokens / 2);
}

uint64_t even_tokens_first(uint64_t step, uint64_t tokens)
{
    const uint64_t even = tokens - tokens / 2;

    return step < even ? 2 * step : 2 * (step - even) + 1;
}

uint64_t last_token_first(uint64_t step, uint64_t tokens)
{
    return tokens - 1 - step;
}

typedef struct {
    int64_t slot;
    uint64_t token;
} target;

static int by_slot_then_token(const void *one, const void *other)
{
    const target *a = one;
    const target *b = other;

    if (a->slot != b->slot) {
        return a->slot < b->slot ? -1 : 1;
    }
    return (a->token > b->token) - (a->token < b->token);
}

/* Whether there is anything to report: sorting costs more than a copy of all rows. */
static bool any_shared(const int64_t *slots, uint64_t tokens, int64_t ignored)
{
    uint64_t places = 2;

    while (places < 2 * tokens) {
        places *= 2;
    }
    int64_t *seen = malloc(places * sizeof *seen);
    bool is_shared = seen == NULL; /* then the sort finds out */
    for (uint64_t i = 0; i < places && seen != NULL; i++) {
        seen[i] = ignored;
    }
    for (uint64_t t = 0; t < tokens && !is_shared; t++) {
        uint64_t place = (uint64_t)slots[t] * 0x9E3779B97F4A7C15U >> 32 & (places - 1);
        while (seen[place] != ignored && seen[place] != slots[t]) {
            place = (place + 1) & (places - 1);
        }
        is_shared = slots[t] != ignored && seen[place] == slots[t];
        seen[place] = slots[t];
    }
    free(seen);
    return is_shared;
}

bool report_duplicates(const char *function, const int64_t *slots, uint64_t tokens, int64_t ignored)
{
    const bool is_reported = sim_checking(SIM_CHECK_RACE) && any_shared(slots, tokens, ignored);
    target *targets = is_reported ? calloc(tokens, sizeof *targets) : NULL;

    if (targets == NULL) {
        return is_reported;
    }
    for (uint64_t t = 0; t < tokens; t++) {
        targets[t] = (target){slots[t], t};
    }
    qsort(targets, tokens, sizeof *targets, by_slot_then_token);
    for (uint64_t i = 1; i < tokens; i++) {
        if (targets[i].slot != ignored && targets[i].slot == targets[i - 1].slot) {
            sim_report(SIM_CHECK_RACE, "duplicate_slot", function,
                       "tokens %llu and %llu share slot %lld; which one it keeps is undefined: give each token a slot of its "
                       "own",
                       (unsigned long long)targets[i - 1].token, (unsigned long long)targets[i].token,
                       (long long)targets[i].slot);
            break;
        }
    }
    free(targets);
    return is_reported;
}
