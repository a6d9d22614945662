# SPDX-License-Identifier: Apache-2.0
"""Statuses of aclnn itself: 161xxx, 361xxx, 561xxx. Phase 1 and phase 2 of every operator answer with these."""

from aclnn_kvcache.status.table import Group

GROUPS = (
    Group(
        causes="none: the call did what it was asked for",
        action="nothing; work that is only queued may still fail, and the next synchronise says so",
        rows=(
            (0, "ACLNN_SUCCESS", "success"),
            (0, "ACL_ERROR_NONE", "success"),
            (0, "ACL_SUCCESS", "success"),
            (0, "ACL_RT_SUCCESS", "success"),
        ),
    ),
    Group(
        causes="a required tensor, array or out-parameter is NULL",
        action="pass every tensor that the operator requires; `aclnn-kvcache explain --rules OPERATOR` lists them",
        rows=((161001, "ACLNN_ERR_PARAM_NULLPTR", "a required pointer argument is null"),),
    ),
    Group(
        causes="dtype, rank, shape, format or an attribute is outside what the operator takes",
        action=(
            "compare the argument named in the message with the operator's contract (`aclnn-kvcache explain --rules "
            "OPERATOR`)"
        ),
        rows=(
            (
                161002,
                "ACLNN_ERR_PARAM_INVALID",
                "an argument is invalid (dtype, shape, format, size, workspace too small, list index)",
            ),
        ),
    ),
    Group(
        causes="the thread has no device, memory is exhausted, or a kernel that was queued earlier failed",
        action=(
            "read the library's message or the log for the runtime's own code (107xxx, 207xxx or 507xxx) and explain "
            "that one"
        ),
        rows=((361001, "ACLNN_ERR_RUNTIME_ERROR", "a runtime (aclrt) call made inside failed"),),
    ),
    Group(
        causes=(
            "phase 2 folds every inner failure into this code: a NULL executor or workspace, a second use, a launch "
            "error"
        ),
        action=(
            "use what phase 1 returned only if its status was 0, and each executor once; then read the library's "
            "message"
        ),
        telling=(
            "yours, if the message speaks of a null executor or workspace, if an executor was used twice, or if it was "
            "to be made repeatable where CANN cannot (aclSetAclOpExecutorRepeatable on contiguous caches). The "
            "installation or the device, if the message or the log has a runtime code (207xxx, 507xxx) or a launch "
            "error"
        ),
        rows=(
            (
                561000,
                "ACLNN_ERR_INNER",
                "unspecified internal error (also: executor cannot be made repeatable, unknown executor magic)",
            ),
        ),
    ),
    Group(
        causes=(
            "shapes that contradict each other, or the operator's shape inference is missing from the operator package"
        ),
        action=(
            "read the library's message: it names a tensor if the arguments are at fault, else look at the installation"
        ),
        telling=(
            "yours, if the message has one of EZ0001 to EZ0028 or names a tensor. The installation, if it has EZ1014 "
            "or says nothing"
        ),
        rows=((561001, "ACLNN_ERR_INNER_INFERSHAPE_ERROR", "output shape inference failed"),),
    ),
    Group(
        causes="tiling refused the shapes",
        action=(
            "compare the shapes with the operator's contract: tiling is the step of phase 1 that cuts the work into "
            "parts for the cores, and only it knows some limits"
        ),
        telling=(
            "yours, if the message has one of EZ0001 to EZ0028 or names a tensor. The installation, if it has EZ1008, "
            "or speaks of a missing kernel or tiling function"
        ),
        rows=((561002, "ACLNN_ERR_INNER_TILING_ERROR", "tiling failed"),),
    ),
    Group(
        causes="no kernel for this product in the installed operator packages",
        action="install the operator package of this product (Ascend 950) and check ASCEND_OPP_PATH",
        telling=(
            "yours only if dtypes or formats are a combination that has no kernel: the checks name it. Otherwise the "
            "installation"
        ),
        rows=(
            (
                561003,
                "ACLNN_ERR_INNER_FIND_KERNEL_ERROR",
                "no kernel found (op binary package missing or unsupported combination)",
            ),
        ),
    ),
    Group(
        causes="too many executors are kept alive instead of being used or destroyed, or host memory is exhausted",
        action="run phase 2 right after phase 1, and destroy what will not run; then look at host memory",
        rows=((561101, "ACLNN_ERR_INNER_CREATE_EXECUTOR", "executor could not be created"),),
    ),
    Group(
        causes=(
            "tiling refused shapes or strides, no kernel fits this product, the thread has no device, or executors "
            "were kept until none was left"
        ),
        action=(
            "read the library's message: it names a tensor if the arguments are at fault, else look at the installation"
        ),
        telling=(
            "yours, if the message has one of EZ0001 to EZ0028 or names a tensor, or if the checks find a broken rule. "
            'The installation, if it has EZ1008, EZ1009, EZ1013 or EZ1014, "Parse dynamic kernel config fail" or '
            "binary_info_config.json, or if the checks find nothing in the call. Neither, if it has 107002: the thread "
            "has set no device"
        ),
        rows=(
            (
                561103,
                "ACLNN_ERR_INNER_NULLPTR",
                "internal null pointer (also null executor/tensor to the aclSet*/aclDestroyAclOpExecutor calls)",
            ),
        ),
    ),
    Group(
        causes="the operator library and libnnopbase are of different releases, or the library has a defect",
        action=(
            "check that both come from one CANN root (aclnn-kvcache doctor), then keep the log (aclnn-kvcache explain "
            "--plog) for a report to the vendor"
        ),
        rows=(
            (561102, "ACLNN_ERR_INNER_NOT_TRANS_EXECUTOR", "op implementation did not hand over the executor"),
            (561104, "ACLNN_ERR_INNER_WRONG_ATTR_INFO_SIZE", "attribute count wrong"),
            (561105, "ACLNN_ERR_INNER_KEY_CONFILICT", "kernel hash key conflict"),
            (561105, "ACLNN_ERR_INNER_KEY_CONFLICT", "kernel hash key conflict"),
            (561106, "ACLNN_ERR_INNER_INVALID_IMPL_MODE", "implementation mode invalid"),
        ),
    ),
    Group(
        causes="ASCEND_OPP_PATH is not set",
        action="source set_env.sh before starting Python",
        rows=((561107, "ACLNN_ERR_INNER_OPP_PATH_NOT_FOUND", "ASCEND_OPP_PATH not set"),),
    ),
    Group(
        causes=(
            "the description of an operator's kernels in the operator package is damaged, incomplete or of another "
            "release"
        ),
        action=(
            "install the operator package again, of the release of the toolkit; aclnn-kvcache doctor shows which one "
            "is in use"
        ),
        rows=(
            (561108, "ACLNN_ERR_INNER_LOAD_JSON_FAILED", "kernel json failed to load"),
            (561109, "ACLNN_ERR_INNER_JSON_VALUE_NOT_FOUND", "json field missing"),
            (561110, "ACLNN_ERR_INNER_JSON_FORMAT_INVALID", "json format field invalid"),
            (561111, "ACLNN_ERR_INNER_JSON_DTYPE_INVALID", "json dtype field invalid"),
            (561113, "ACLNN_ERR_INNER_OP_FILE_INVALID", "op json invalid"),
            (561116, "ACLNN_ERR_INNER_INPUT_NUM_IN_JSON_TOO_LARGE", "more than 32 inputs in json"),
            (561117, "ACLNN_ERR_INNER_INPUT_JSON_IS_NULL", "input description missing in json"),
            (561118, "ACLNN_ERR_INNER_STATIC_WORKSPACE_INVALID", "static kernel workspace entry invalid"),
            (561119, "ACLNN_ERR_INNER_STATIC_BLOCK_DIM_INVALID", "static kernel block-dim entry invalid"),
        ),
    ),
    Group(
        causes="the operator kernel package is missing",
        action="install the kernel package of this product",
        rows=((561112, "ACLNN_ERR_INNER_OPP_KERNEL_PKG_NOT_FOUND", "no kernel package loaded"),),
    ),
    Group(
        causes=(
            "the operator library passes other attributes than the kernel package describes: the two are of different "
            "releases"
        ),
        action="install library and kernel package of one release; aclnn-kvcache doctor shows both",
        rows=(
            (561114, "ACLNN_ERR_INNER_ATTR_NUM_OUT_OF_BOUND", "more attributes than the json declares"),
            (561115, "ACLNN_ERR_INNER_ATTR_LEN_NOT_ENOUGH", "fewer attributes than the json declares"),
        ),
    ),
)
