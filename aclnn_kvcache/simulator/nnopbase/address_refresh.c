/* SPDX-License-Identifier: Apache-2.0 */
/* Giving tensors of a repeatable executor another storage base. Every operator here is a composite one, and those know
   the tensor object only: index and irIndex are not looked at (acl_abi 3.5). */
#include "core/export.h"
#include "core/faults.h"
#include "core/message.h"
#include "nnopbase/arguments.h"
#include "nnopbase/executor.h"
#include "nnopbase/holders.h"
#include "nnopbase/tensor.h"
#include "opdev/op_errno.h"

/* CANN's order: the tensor is looked at first, its base is changed, and only then comes the executor. */
static aclnnStatus refresh(const char *function, const aclOpExecutor *executor, const aclTensor *tensor, void *addr)
{
    if (tensor == NULL) {
        return sim_null_argument(function, "tensor", ACLNN_ERR_INNER_NULLPTR);
    }
    sim_tensor *object = sim_live_object(SIM_TENSOR, tensor, function, "tensor");
    if (object == NULL) {
        return ACLNN_ERR_INNER;
    }
    object->base = addr;

    if (executor == NULL) {
        return sim_null_argument(function, "executor", ACLNN_ERR_INNER_NULLPTR);
    }
    const sim_executor *target = sim_live_object(SIM_EXECUTOR, executor, function, "executor");
    if (target == NULL) {
        return ACLNN_ERR_INNER;
    }
    if (target->kind == SIM_CACHED_WRAPPER) {
        sim_message("EZ9999", "AclNN_Inner_Error",
                    "%s: an executor of the cache keeps the addresses that it was made with", function);
        return ACLNN_ERR_INNER;
    }
    return ACLNN_SUCCESS;
}

static aclnnStatus refresh_member(const char *function, const aclOpExecutor *executor, const aclTensorList *tensors,
                                  size_t index, void *addr)
{
    if (tensors == NULL) {
        return sim_null_argument(function, "tensors", ACLNN_ERR_INNER_NULLPTR);
    }
    const sim_holder *list = sim_live_object(SIM_TENSOR_LIST, tensors, function, "tensors");
    if (list == NULL) {
        return ACLNN_ERR_INNER;
    }
    if (index >= list->size) {
        sim_message("EZ1001", "AclNN_Parameter_Error", "%s: relativeIndex is %zu but the list has %llu tensors",
                    function, index, (unsigned long long)list->size);
        return ACLNN_ERR_PARAM_INVALID;
    }
    const aclTensor *const *members = (const void *)list->values;
    return refresh(function, executor, members[index], addr);
}

/* Inputs, outputs and both counted together differ for generated operators only; each name has two spellings. */
#define DEFINE_REFRESH(name)                                                                                           \
    SIM_EXPORT aclnnStatus name(aclOpExecutor *executor, const size_t index, aclTensor *tensor, void *addr)      \
    {                                                                                                                  \
        SIM_CALL(name(executor, index, tensor, addr));                                                                 \
        (void)index;                                                                                                   \
        return refresh(__func__, executor, tensor, addr);                                                              \
    }

#define DEFINE_DYNAMIC_REFRESH(name)                                                                                   \
    SIM_EXPORT aclnnStatus name(aclOpExecutor *executor, size_t irIndex, const size_t relativeIndex,             \
                                      aclTensorList *tensors, void *addr)                                              \
    {                                                                                                                  \
        SIM_CALL(name(executor, irIndex, relativeIndex, tensors, addr));                                               \
        (void)irIndex;                                                                                                 \
        return refresh_member(__func__, executor, tensors, relativeIndex, addr);                                       \
    }

DEFINE_REFRESH(aclSetInputTensorAddr)
DEFINE_REFRESH(aclSetOutputTensorAddr)
DEFINE_REFRESH(aclSetTensorAddr)
DEFINE_DYNAMIC_REFRESH(aclSetDynamicInputTensorAddr)
DEFINE_DYNAMIC_REFRESH(aclSetDynamicOutputTensorAddr)
DEFINE_DYNAMIC_REFRESH(aclSetDynamicTensorAddr)
DEFINE_REFRESH(AclSetInputTensorAddr)
DEFINE_REFRESH(AclSetOutputTensorAddr)
DEFINE_REFRESH(AclSetTensorAddr)
DEFINE_DYNAMIC_REFRESH(AclSetDynamicInputTensorAddr)
DEFINE_DYNAMIC_REFRESH(AclSetDynamicOutputTensorAddr)
DEFINE_DYNAMIC_REFRESH(AclSetDynamicTensorAddr)
