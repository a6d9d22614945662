/* SPDX-License-Identifier: Apache-2.0 */
/* The fused operator of the revision that the fuzzer is compiled for: REVISION is 'A', 'B' or 'C'. */
#ifndef REVISION_H_
#define REVISION_H_

#include <stdbool.h>
#include <stdint.h>
#include "aclnn/acl_meta.h"

#ifndef REVISION
#define REVISION 'A'
#endif

enum { QKV, Q_GAMMA, K_GAMMA, COS_SIN, SLOTS, K_CACHE, V_CACHE, K_SCALE_CACHE, STARTS, LENGTHS, ROTATION, V_SCALE, Q_OUT,
       Q_SCALE, POSITION, QKV_TENSORS };

enum { D = 128 };

/* Each revision has one more. */
enum { ROPE, MROPE, MX, SCENES = REVISION - 'A' + 1 };

typedef struct {
    aclDataType dtype;
    int64_t dims[4];
    uint64_t rank; /* 0: not in this scene */
} wanted;

/* Head counts are those of Q and of K; rows are those of the table. */
typedef struct {
    int scene;
    int64_t tokens, q, k, blocks, block_size, rows, batches;
    bool tnd_in, tnd_out;
} qkv_sizes;

/* The tensors of a call of these sizes. */
void qkv_wants(const qkv_sizes *z, wanted of[QKV_TENSORS]);

/* The arguments beside the tensors; the last three are for newer revisions. */
typedef struct {
    const aclIntArray *heads;
    const char *layout_in, *layout_out;
    float epsilon;
    const aclIntArray *section;
    const char *q_mode, *k_mode;
} qkv_options;

extern const char *const qkv_modes[3][2]; /* of Q and of K, for each scene */

int qkv_phase1(aclTensor *const t[QKV_TENSORS], const qkv_options *o, uint64_t *bytes, aclOpExecutor **executor);

#endif /* REVISION_H_ */
