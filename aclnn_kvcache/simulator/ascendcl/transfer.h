/* SPDX-License-Identifier: Apache-2.0 */
/* What all copies have in common. A plain copy is one row. */
#ifndef ACLSIM_ASCENDCL_TRANSFER_H_
#define ACLSIM_ASCENDCL_TRANSFER_H_

#include "acl/acl_rt.h"
#include "area.h"

typedef struct {
    const char *function;
    area dst;
    area src;
    size_t dst_pitch;
    size_t src_pitch;
    size_t width;
    size_t height;
} transfer;

/* A plain copy; its areas are not located yet. */
transfer transfer_row(const char *function, void *dst, const void *src, size_t count);

/* Locates the areas and checks that they can reach each other. */
aclError transfer_locate(transfer *t);

/* Whether both areas are the host's. */
int transfer_on_host(const transfer *t);

/* Whether the kind fits where the areas are. */
aclError transfer_check_kind(const transfer *t, aclrtMemcpyKind kind);

/* Reports a kind that does not fit: the synchronous copy takes its direction from the addresses, and says nothing. */
void transfer_report_kind(const transfer *t, aclrtMemcpyKind kind);

/* Reports a plain copy inside device memory whose areas share bytes. */
void transfer_report_overlap(const transfer *t);

/* Now, on this thread, whatever the streams do. */
aclError transfer_now(const transfer *t);

/* By the rules of asynchronous copies; needs a current context, and takes its default stream for NULL. */
aclError transfer_queue(const transfer *t, aclrtMemcpyKind kind, aclrtStream stream);

#endif
