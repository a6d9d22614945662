/* SPDX-License-Identifier: Apache-2.0 */
/* What the revisions' first phases are made of. A failed check has recorded its message. */
#ifndef ACLSIM_OPAPI_QKV_PHASE1_H_
#define ACLSIM_OPAPI_QKV_PHASE1_H_

#include "opapi/qkv.h"

/* 161001 naming the argument. */
aclnnStatus qkv_null_pointer(const char *name);

/* Head counts and section; none for NULL. */
aclnnStatus qkv_read_lists(const char *function, const void *head_nums, const void *section,
                           qkv_attributes *attributes);

/* A missing text is the mode "PerTokenPerHead". */
const char *qkv_quant_mode(const char *text);

/* Three of them, each positive. */
aclnnStatus qkv_check_head_counts(qkv_attributes *attributes);

/* A missing text means the default, which differs between input and output; false for any other text. */
bool qkv_read_layout(const char *text, qkv_layout by_default, qkv_layout *layout);

aclnnStatus qkv_check_layouts(qkv_attributes *attributes);

/* Three turns that fit the lanes (qkv_rms_norm_rope_cache_with_k_scale.md, 2.3). */
bool qkv_section_fits(const int64_t *section);

/* Rank, head axis and head size of qkv, which the other shapes are measured by. */
aclnnStatus qkv_check_axes(const sim_tensor *qkv, const qkv_attributes *attributes);

/* The extent of qkv's token axis. */
int64_t qkv_tokens(const sim_tensor *qkv, const qkv_attributes *attributes);

/* Checks that go over the tensors in an order; those that are not there are left out. */
typedef struct {
    const qkv_tensor *tensors;
    size_t count;
} qkv_order;

aclnnStatus qkv_check_empty(const sim_tensor *const tensors[QKV_TENSORS], qkv_order order);
aclnnStatus qkv_check_dtypes(const sim_tensor *const tensors[QKV_TENSORS], qkv_order order,
                             const int dtypes[QKV_TENSORS]);
/* Whether its format is one of the device's own. */
bool qkv_is_private(const sim_tensor *tensor);
aclnnStatus qkv_check_formats(const sim_tensor *const tensors[QKV_TENSORS], qkv_order order);

/* What copies of inputs ask of the storage, and views of caches. */
aclnnStatus qkv_check_copies(const sim_tensor *const tensors[QKV_TENSORS]);
/* Views that begin in front of their storage; views that begin behind it. */
aclnnStatus qkv_check_offsets(const sim_tensor *const tensors[QKV_TENSORS]);
aclnnStatus qkv_check_views(const sim_tensor *const tensors[QKV_TENSORS]);

/* The first three strides are no less than these, the last one is 1. */
bool qkv_check_strides(const sim_tensor *cache, const char *name, const int64_t least[3]);

/* K and V rows of a slot lie at the same offset. */
bool qkv_share_strides(const sim_tensor *k_cache, const sim_tensor *v_cache);

/* The operator's shape inference writes the caller's output descriptors. What tells calls apart are the descriptors as
   they came, which from here on stand in their place. */
void qkv_infer_outputs(const void *const handles[QKV_TENSORS], const sim_tensor *tensors[QKV_TENSORS],
                       const qkv_attributes *attributes, sim_tensor as_given[2]);

/* The executor of a call that passed all checks. */
aclnnStatus qkv_give(const void *const handles[QKV_TENSORS], const sim_tensor *const tensors[QKV_TENSORS],
                     const qkv_attributes *attributes, int32_t device, uint64_t *workspace_size,
                     aclOpExecutor **executor);

#endif
