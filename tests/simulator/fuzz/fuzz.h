/* SPDX-License-Identifier: Apache-2.0 */
/* Random but well-formed calls through the three libraries. A world is what one thread has: a device for calls whose
   every byte is known, another for calls that may do anything, and its own random numbers. Threads share the process
   and nothing else, since handing objects from one to the other is theirs to order in CANN too. */
#ifndef FUZZ_H_
#define FUZZ_H_

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "acl/acl.h"
#include "aclnn/acl_meta.h"

enum { MOST_BLOCKS = 24, STREAMS = 3, EVENTS = 4, PIN_BYTES = 1 << 14, MOST_STALE = 32 };

/* Device memory and what must be in it, byte by byte: what no call names are its canaries. */
typedef struct {
    uint8_t *device; /* NULL: a free place in the table */
    uint8_t *expected;
    size_t bytes;
    int stream; /* that used it last, or -1 */
} block;

typedef struct {
    uint64_t random;
    int good_device;
    int wild_device;
    block blocks[MOST_BLOCKS];
    aclrtStream streams[STREAMS];
    uint8_t *pinned[STREAMS]; /* what a stream's last asynchronous copy uses */
    aclrtEvent events[EVENTS];
    bool recorded[EVENTS];
    const void *stale[MOST_STALE]; /* handles and addresses that are gone */
    size_t stale_count;
    atomic_ullong steps;
    atomic_ullong calls;
    const char *_Atomic doing;
} world;

/* main.c */
_Noreturn void fuzz_failed(const world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
int fuzz_status(world *w, const char *call, int status); /* of the known ones, or the end */
void fuzz_good(world *w, const char *call, int status);  /* 0, or the end */

/* Any status of the known set, and 0. */
#define ANY(w, call) (atomic_store(&(w)->doing, #call), fuzz_status(w, #call, (int)(call)))
#define GOOD(w, call) (atomic_store(&(w)->doing, #call), fuzz_good(w, #call, (int)(call)))
#define REQUIRE(w, condition, ...) ((condition) ? (void)0 : fuzz_failed(w, __VA_ARGS__))

/* chance.c */
uint64_t any_bits(world *w);
uint64_t below(world *w, uint64_t end);                    /* 0 to end - 1 */
int64_t between(world *w, int64_t first, int64_t last);    /* both included */
bool one_in(world *w, uint64_t n);
int64_t odd_number(world *w);                              /* small, at a limit of some width, or anything */
const void *wild_pointer(world *w);                        /* NULL, stale, of another kind, or no pointer at all */
void fill(world *w, void *bytes, size_t count);
void remember_stale(world *w, const void *handle);

/* memory.c */
void memory_room(world *w, int blocks); /* frees until there is room for so many */
block *block_new(world *w, size_t bytes);
void block_use(world *w, block *b, int stream); /* orders what comes next on the stream after what came before */
void block_settle(world *w, block *b);
void block_upload(world *w, block *b);          /* makes the expected bytes true */
void block_verify(world *w, block *b);
void block_free(world *w, block *b);
void memory_step(world *w);
void memory_close(world *w);

/* streams.c */
void streams_open(world *w);
void stream_step(world *w);
void streams_close(world *w);

/* tensor.c */
enum { MOST_RANK = 30 };
typedef struct {
    block *block;
    uint64_t rank;
    int64_t dims[4];
    int64_t strides[4];
    int64_t offset;
    size_t item;
    aclTensor *handle;
} tensor;
/* A tensor with gaps: every byte of its block is random and known. same_strides may be NULL. */
void tensor_make(world *w, tensor *t, aclDataType dtype, uint64_t rank, const int64_t *dims, const tensor *same_strides);
void tensor_dense(world *w, tensor *t, aclDataType dtype, uint64_t rank, const int64_t *dims);
uint8_t *tensor_at(const tensor *t, int64_t i, int64_t j, int64_t k, int64_t l); /* among the expected bytes */
/* Tensors without a handle are none. */
void tensors_publish(world *w, tensor *tensors, size_t count, int stream);
void tensors_drop(world *w, tensor *tensors, size_t count);

/* good_scatter.c, good_qkv.c: calls that must succeed, with the bytes that must come out */
void good_scatter_step(world *w);
void good_qkv_step(world *w);
/* Phase 2 of a good call, with a workspace of its size; awaited. */
typedef aclnnStatus (*phase2)(void *workspace, uint64_t bytes, aclOpExecutor *executor, aclrtStream stream);
void launch_good(world *w, phase2 run, uint64_t workspace_bytes, aclOpExecutor *executor, int stream);

/* wild_*.c: calls that may answer anything known */
void wild_runtime_step(world *w);
void wild_queries_step(world *w);
void wild_support_step(world *w);
void wild_operator_step(world *w);
aclTensor *wild_tensor(world *w, void *base, bool *is_small); /* few elements near its base */

#endif /* FUZZ_H_ */
