# SPDX-License-Identifier: Apache-2.0
"""Statuses of the graph executor: 145xxx, 245xxx, 345xxx, 545xxx. No call of this package answers with one."""

from aclnn_kvcache.status.table import Group

GROUPS = (
    Group(
        causes=(
            "a graph or model is loaded or run with a wrong argument, file or input; the operators of this package "
            "need none, so something else in the process does"
        ),
        action="look at the component that loads models: the file, the inputs and their sizes",
        rows=(
            (145000, "ACL_ERROR_GE_PARAM_INVALID", "argument rejected by the graph executor"),
            (145001, "ACL_ERROR_GE_EXEC_NOT_INIT", "executor not initialised"),
            (145002, "ACL_ERROR_GE_EXEC_MODEL_PATH_INVALID", "model path invalid"),
            (145003, "ACL_ERROR_GE_EXEC_MODEL_ID_INVALID", "model id invalid"),
            (145006, "ACL_ERROR_GE_EXEC_MODEL_DATA_SIZE_INVALID", "model size invalid"),
            (145007, "ACL_ERROR_GE_EXEC_MODEL_ADDR_INVALID", "model address invalid"),
            (145008, "ACL_ERROR_GE_EXEC_MODEL_QUEUE_ID_INVALID", "queue id invalid"),
            (145009, "ACL_ERROR_GE_EXEC_LOAD_MODEL_REPEATED", "loaded twice"),
            (145011, "ACL_ERROR_GE_DYNAMIC_INPUT_ADDR_INVALID", "dynamic input address invalid"),
            (145012, "ACL_ERROR_GE_DYNAMIC_INPUT_LENGTH_INVALID", "dynamic input length invalid"),
            (145013, "ACL_ERROR_GE_DYNAMIC_BATCH_SIZE_INVALID", "dynamic batch size invalid"),
            (145017, "ACL_ERROR_GE_OP_TASK_TYPE_INVALID", "task type invalid"),
            (145018, "ACL_ERROR_GE_OP_KERNEL_TYPE_INVALID", "kernel type invalid"),
            (145020, "ACL_ERROR_GE_FORMAT_INVALID", "format invalid"),
            (145021, "ACL_ERROR_GE_SHAPE_INVALID", "shape invalid"),
            (145022, "ACL_ERROR_GE_DATATYPE_INVALID", "data type invalid"),
        ),
    ),
    Group(
        causes=(
            "a model with image preprocessing (AIPP) is run; the operators of this package need none, so something "
            "else in the process does"
        ),
        action="look at the component that loads models, and at the preprocessing it sets",
        rows=(
            (145014, "ACL_ERROR_GE_AIPP_BATCH_EMPTY", "AIPP batch size invalid"),
            (145015, "ACL_ERROR_GE_AIPP_NOT_EXIST", "AIPP configuration absent"),
            (145016, "ACL_ERROR_GE_AIPP_MODE_INVALID", "AIPP mode invalid"),
        ),
    ),
    Group(
        causes="a plug-in of the graph engine was not found where it was looked for",
        action="source set_env.sh of one CANN root, and check ASCEND_OPP_PATH",
        rows=((145019, "ACL_ERROR_GE_PLGMGR_PATH_INVALID", "plugin library path invalid"),),
    ),
    Group(
        causes="a graph needs more memory than the device or host has; the operators of this package run no graph",
        action="look at the component that loads models, and at what else holds memory",
        rows=(
            (245000, "ACL_ERROR_GE_MEMORY_ALLOCATION", "memory allocation failed"),
            (245001, "ACL_ERROR_GE_MEMORY_OPERATE_FAILED", "memory set/copy failed"),
            (245002, "ACL_ERROR_GE_DEVICE_MEMORY_OPERATE_FAILED", "device memory operation failed"),
        ),
    ),
    Group(
        causes=(
            "a service that runs graphs on several devices reports its state; the operators of this package run none"
        ),
        action="look at the component that deploys graphs",
        rows=(
            (345102, "ACL_ERROR_GE_SUBHEALTHY", "system in degraded state after redeployment"),
            (345103, "ACL_ERROR_GE_USER_RAISE_EXCEPTION", "user function raised"),
            (345104, "ACL_ERROR_GE_DATA_NOT_ALIGNED", "data not aligned between outputs"),
            (545602, "ACL_ERROR_GE_REDEPLOYING", "redeployment in progress"),
        ),
    ),
    Group(
        causes=(
            "the graph executor failed inside; the operators of this package do not use it, so something else in the "
            "process does"
        ),
        action=(
            "look at the component that loads models, and for the first error in the log (aclnn-kvcache explain --plog)"
        ),
        rows=(
            (545000, "ACL_ERROR_GE_INTERNAL_ERROR", "unknown internal error"),
            (545001, "ACL_ERROR_GE_LOAD_MODEL", "model load failed"),
            (545002, "ACL_ERROR_GE_EXEC_LOAD_MODEL_PARTITION_FAILED", "model partition load failed"),
            (545003, "ACL_ERROR_GE_EXEC_LOAD_WEIGHT_PARTITION_FAILED", "weight partition load failed"),
            (545004, "ACL_ERROR_GE_EXEC_LOAD_TASK_PARTITION_FAILED", "task partition load failed"),
            (545005, "ACL_ERROR_GE_EXEC_LOAD_KERNEL_PARTITION_FAILED", "kernel partition load failed"),
            (545006, "ACL_ERROR_GE_EXEC_RELEASE_MODEL_DATA", "model release failed"),
            (545007, "ACL_ERROR_GE_COMMAND_HANDLE", "command handling failed"),
            (545008, "ACL_ERROR_GE_GET_TENSOR_INFO", "tensor information not obtainable"),
            (545009, "ACL_ERROR_GE_UNLOAD_MODEL", "model unload failed"),
            (545601, "ACL_ERROR_GE_MODEL_EXECUTE_TIMEOUT", "model execution timed out"),
        ),
    ),
)
