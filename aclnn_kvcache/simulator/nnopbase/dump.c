/* SPDX-License-Identifier: Apache-2.0 */
/* Dumping is not simulated, and a simulator that answered 0 here would pretend. */
#include <stdio.h>

#include "aclnn/acl_meta.h"
#include "core/export.h"
#include "core/faults.h"
#include "core/message.h"
#include "opdev/op_errno.h"

SIM_EXPORT aclnnStatus aclDumpOpTensors(const char *opType, const char *opName, aclTensor **tensors,
                                        size_t inputTensorNum, size_t outputTensorNum, aclrtStream stream)
{
    SIM_CALL(aclDumpOpTensors(opType, opName, tensors, inputTensorNum, outputTensorNum, stream));
    (void)opType;
    (void)opName;
    (void)tensors;
    (void)inputTensorNum;
    (void)outputTensorNum;
    (void)stream;
    fprintf(stderr, "aclsim: %s is not simulated\n", __func__);
    sim_message("EZ9999", "AclNN_Inner_Error", "%s is not simulated", __func__);
    return ACLNN_ERR_INNER;
}
