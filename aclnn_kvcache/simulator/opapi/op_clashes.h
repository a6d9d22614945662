/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that a kernel touches twice, one time at least writing. Its rows come in any order, so what it reads and leaves
   there is undefined. By the bytes themselves: views of one allocation may well run through each other. */
#ifndef ACLSIM_OPAPI_OP_CLASHES_H_
#define ACLSIM_OPAPI_OP_CLASHES_H_

#include "opapi/op_operand.h"

/* Where the rows of each token go in every cache. Tokens with the ignored slot have none. */
typedef struct {
    const int64_t *slots;
    uint64_t tokens;
    int64_t ignored;
    uint64_t block_size;
} op_slots;

/* Reports rows that were written on each other: of tokens that share a slot, else of slots that share bytes. */
void op_report_overlapping_rows(const op_launch *launch, const op_slots *rows);

/* Reports each pair of tensors that share bytes which one of them has written. */
void op_report_overlapping_tensors(const char *kernel);

#endif
