/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens that share a slot. The device defines no order, and what belongs together may come from different tokens: the
   orders here differ from one part of a call to the next, so that nobody takes "the last one wins" for the rule. */
#ifndef ACLSIM_OPAPI_OP_DUPLICATES_H_
#define ACLSIM_OPAPI_OP_DUPLICATES_H_

#include <stdbool.h>
#include <stdint.h>

/* The token whose turn is in this step. */
typedef uint64_t (*token_order)(uint64_t step, uint64_t tokens);

uint64_t odd_tokens_first(uint64_t step, uint64_t tokens);
uint64_t even_tokens_first(uint64_t step, uint64_t tokens);
uint64_t last_token_first(uint64_t step, uint64_t tokens);

/* Reports the first slot that several tokens share, and returns whether there is one; false while nobody looks. Tokens
   with the ignored slot are left out. */
bool report_duplicates(const char *function, const int64_t *slots, uint64_t tokens, int64_t ignored);

#endif
