/* SPDX-License-Identifier: Apache-2.0 */
/* aclnnScatterPaKvCacheWithKScale, shared between its phases. */
#ifndef ACLSIM_OPAPI_SCATTER_H_
#define ACLSIM_OPAPI_SCATTER_H_

#include "opapi/op_staging.h"

/* In the order of the arguments. */
typedef enum {
    KEY,
    VALUE,
    KEY_CACHE,
    VALUE_CACHE,
    SLOT_MAPPING,
    KEY_SCALE,
    KEY_SCALE_CACHE,
    SCATTER_TENSORS,
} scatter_tensor;

/* Names of the parameters, in the order of the tensors. */
extern const char *const scatter_names[SCATTER_TENSORS];

/* How the kernel gets at the tensors: in place, or through a dense copy at this offset of the workspace. */
typedef struct {
    int64_t staged_at[SCATTER_TENSORS];
} scatter_details;

/* Every tensor of LAST has last stride 1 and something is not contiguous: views in place, no copies
   (phase1_revision_a.md, View path). Ranks have been checked. */
bool scatter_takes_view_path(const sim_tensor *const tensors[SCATTER_TENSORS]);

/* Fills in the details and returns the workspace size. */
uint64_t scatter_stage(const sim_tensor *const tensors[SCATTER_TENSORS], bool view_path, scatter_details *details);

/* Rows 3 to 6 and 8 to 13 of the decision table; a failed check has recorded its message. */
bool scatter_is_empty_call(const sim_tensor *const tensors[SCATTER_TENSORS]);
aclnnStatus scatter_check_parameters(const sim_tensor *const tensors[SCATTER_TENSORS]);
aclnnStatus scatter_check_tiling(const sim_tensor *const tensors[SCATTER_TENSORS]);

/* The slot of each token as the kernel sees it, SLOT_SKIPPED for one that it leaves out. NULL with the fault that ends
   the kernel; to be freed. */
enum { SLOT_SKIPPED = -1 };
int64_t *scatter_read_slots(const op_operand_place *slots, uint64_t tokens, uint64_t limit, uint64_t mask,
                            aclError *fault);

#define SCATTER_NAME "aclnnScatterPaKvCacheWithKScale"
extern const op_kernel scatter_kernel;

#endif
