/* SPDX-License-Identifier: Apache-2.0 */
/* The C calls of a scatter launch in loops of C: what a launch costs without Python. Compiled when a benchmark runs. */
#include <stddef.h>
#include <stdint.h>

#define TENSORS 7

typedef int (*phase_1)(void *, void *, void *, void *, void *, void *, void *, char *, uint64_t *, void **);
typedef int (*phase_2)(void *, uint64_t, void *, void *);
typedef void *(*create)(const int64_t *, uint64_t, int, const int64_t *, int64_t, int, const int64_t *, uint64_t, void *);
typedef int (*destroy)(void *);

typedef struct {
    const int64_t *dims;
    uint64_t rank;
    int dtype;
    const int64_t *strides;
    int64_t offset;
    int format;
    const int64_t *storage;
    uint64_t storage_rank;
    void *address;
} description;

/* Each returns the first status that is not 0. */

int bench_repeatable(phase_2 run, void *workspace, uint64_t size, void *executor, void *stream, long times)
{
    for (long i = 0; i < times; ++i) {
        const int status = run(workspace, size, executor, stream);
        if (status != 0) {
            return status;
        }
    }
    return 0;
}

int bench_two_phase(phase_1 ask, phase_2 run, void **t, void *workspace, void *stream, long times)
{
    for (long i = 0; i < times; ++i) {
        uint64_t size = 0;
        void *executor = NULL;
        int status = ask(t[0], t[1], t[2], t[3], t[4], t[5], t[6], NULL, &size, &executor);
        if (status == 0) {
            status = run(workspace, size, executor, stream);
        }
        if (status != 0) {
            return status;
        }
    }
    return 0;
}

int bench_with_descriptors(create make, destroy end, phase_1 ask, phase_2 run, const description *of, void *workspace,
    void *stream, long times)
{
    int status = 0;
    for (long i = 0; i < times && status == 0; ++i) {
        void *t[TENSORS];
        for (int k = 0; k < TENSORS; ++k) {
            const description *d = &of[k];
            t[k] = make(d->dims, d->rank, d->dtype, d->strides, d->offset, d->format, d->storage, d->storage_rank,
                d->address);
        }
        status = bench_two_phase(ask, run, t, workspace, stream, 1);
        for (int k = 0; k < TENSORS; ++k) {
            end(t[k]);
        }
    }
    return status;
}
