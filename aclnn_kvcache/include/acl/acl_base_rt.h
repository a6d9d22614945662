/* SPDX-License-Identifier: Apache-2.0 */
/* Basic types and status codes of the ACL runtime. */
#ifndef ACLNN_KVCACHE_ACL_ACL_BASE_RT_H_
#define ACLNN_KVCACHE_ACL_ACL_BASE_RT_H_

#include <stddef.h>
#include <stdint.h>
#include "acl/error_codes/rt_error_codes.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef int aclError;
typedef uint16_t aclFloat16;
typedef void *aclrtStream;
typedef void *aclrtContext;
typedef void *aclrtEvent;

enum {
    ACL_ERROR_NONE                            = 0,
    ACL_SUCCESS                               = 0,
    ACL_ERROR_INVALID_PARAM                   = 100000,
    ACL_ERROR_UNINITIALIZE                    = 100001,
    ACL_ERROR_REPEAT_INITIALIZE               = 100002,
    ACL_ERROR_INVALID_FILE                    = 100003,
    ACL_ERROR_WRITE_FILE                      = 100004,
    ACL_ERROR_INVALID_FILE_SIZE               = 100005,
    ACL_ERROR_PARSE_FILE                      = 100006,
    ACL_ERROR_FILE_MISSING_ATTR               = 100007,
    ACL_ERROR_FILE_ATTR_INVALID               = 100008,
    ACL_ERROR_INVALID_DUMP_CONFIG             = 100009,
    ACL_ERROR_INVALID_PROFILING_CONFIG        = 100010,
    ACL_ERROR_INVALID_MODEL_ID                = 100011,
    ACL_ERROR_DESERIALIZE_MODEL               = 100012,
    ACL_ERROR_PARSE_MODEL                     = 100013,
    ACL_ERROR_READ_MODEL_FAILURE              = 100014,
    ACL_ERROR_MODEL_SIZE_INVALID              = 100015,
    ACL_ERROR_MODEL_MISSING_ATTR              = 100016,
    ACL_ERROR_MODEL_INPUT_NOT_MATCH           = 100017,
    ACL_ERROR_MODEL_OUTPUT_NOT_MATCH          = 100018,
    ACL_ERROR_MODEL_NOT_DYNAMIC               = 100019,
    ACL_ERROR_OP_TYPE_NOT_MATCH               = 100020,
    ACL_ERROR_OP_INPUT_NOT_MATCH              = 100021,
    ACL_ERROR_OP_OUTPUT_NOT_MATCH             = 100022,
    ACL_ERROR_OP_ATTR_NOT_MATCH               = 100023,
    ACL_ERROR_OP_NOT_FOUND                    = 100024,
    ACL_ERROR_OP_LOAD_FAILED                  = 100025,
    ACL_ERROR_UNSUPPORTED_DATA_TYPE           = 100026,
    ACL_ERROR_FORMAT_NOT_MATCH                = 100027,
    ACL_ERROR_BIN_SELECTOR_NOT_REGISTERED     = 100028,
    ACL_ERROR_KERNEL_NOT_FOUND                = 100029,
    ACL_ERROR_BIN_SELECTOR_ALREADY_REGISTERED = 100030,
    ACL_ERROR_KERNEL_ALREADY_REGISTERED       = 100031,
    ACL_ERROR_INVALID_QUEUE_ID                = 100032,
    ACL_ERROR_REPEAT_SUBSCRIBE                = 100033,
    ACL_ERROR_STREAM_NOT_SUBSCRIBE            = 100034,
    ACL_ERROR_THREAD_NOT_SUBSCRIBE            = 100035,
    ACL_ERROR_WAIT_CALLBACK_TIMEOUT           = 100036,
    ACL_ERROR_REPEAT_FINALIZE                 = 100037,
    ACL_ERROR_NOT_STATIC_AIPP                 = 100038,
    ACL_ERROR_COMPILING_STUB_MODE             = 100039,
    ACL_ERROR_GROUP_NOT_SET                   = 100040,
    ACL_ERROR_GROUP_NOT_CREATE                = 100041,
    ACL_ERROR_PROF_ALREADY_RUN                = 100042,
    ACL_ERROR_PROF_NOT_RUN                    = 100043,
    ACL_ERROR_DUMP_ALREADY_RUN                = 100044,
    ACL_ERROR_DUMP_NOT_RUN                    = 100045,
    ACL_ERROR_PROF_REPEAT_SUBSCRIBE           = 148046,
    ACL_ERROR_PROF_API_CONFLICT               = 148047,
    ACL_ERROR_INVALID_MAX_OPQUEUE_NUM_CONFIG  = 148048,
    ACL_ERROR_INVALID_OPP_PATH                = 148049,
    ACL_ERROR_OP_UNSUPPORTED_DYNAMIC          = 148050,
    ACL_ERROR_RELATIVE_RESOURCE_NOT_CLEARED   = 148051,
    ACL_ERROR_UNSUPPORTED_JPEG                = 148052,
    ACL_ERROR_INVALID_BUNDLE_MODEL_ID         = 148053,
    ACL_ERROR_BAD_ALLOC                       = 200000,
    ACL_ERROR_API_NOT_SUPPORT                 = 200001,
    ACL_ERROR_INVALID_DEVICE                  = 200002,
    ACL_ERROR_MEMORY_ADDRESS_UNALIGNED        = 200003,
    ACL_ERROR_RESOURCE_NOT_MATCH              = 200004,
    ACL_ERROR_INVALID_RESOURCE_HANDLE         = 200005,
    ACL_ERROR_FEATURE_UNSUPPORTED             = 200006,
    ACL_ERROR_PROF_MODULES_UNSUPPORTED        = 200007,
    ACL_ERROR_STORAGE_OVER_LIMIT              = 300000,
    ACL_ERROR_INTERNAL_ERROR                  = 500000,
    ACL_ERROR_FAILURE                         = 500001,
    ACL_ERROR_GE_FAILURE                      = 500002,
    ACL_ERROR_RT_FAILURE                      = 500003,
    ACL_ERROR_DRV_FAILURE                     = 500004,
    ACL_ERROR_PROFILING_FAILURE               = 500005,
};

typedef enum {
    ACL_DT_UNDEFINED = -1,
    ACL_FLOAT = 0,
    ACL_FLOAT16 = 1,
    ACL_INT8 = 2,
    ACL_INT32 = 3,
    ACL_UINT8 = 4,
    ACL_INT16 = 6,
    ACL_UINT16 = 7,
    ACL_UINT32 = 8,
    ACL_INT64 = 9,
    ACL_UINT64 = 10,
    ACL_DOUBLE = 11,
    ACL_BOOL = 12,
    ACL_STRING = 13,
    ACL_COMPLEX64 = 16,
    ACL_COMPLEX128 = 17,
    ACL_BF16 = 27,
    ACL_INT4 = 29,
    ACL_UINT1 = 30,
    ACL_COMPLEX32 = 33,
    ACL_HIFLOAT8 = 34,
    ACL_FLOAT8_E5M2 = 35,
    ACL_FLOAT8_E4M3FN = 36,
    ACL_FLOAT8_E8M0 = 37,
    ACL_FLOAT6_E3M2 = 38,
    ACL_FLOAT6_E2M3 = 39,
    ACL_FLOAT4_E2M1 = 40,
    ACL_FLOAT4_E1M2 = 41,
} aclDataType;

typedef enum {
    ACL_FORMAT_UNDEFINED = -1,
    ACL_FORMAT_NCHW = 0,
    ACL_FORMAT_NHWC = 1,
    ACL_FORMAT_ND = 2,
    ACL_FORMAT_NC1HWC0 = 3,
    ACL_FORMAT_FRACTAL_Z = 4,
    ACL_FORMAT_NC1HWC0_C04 = 12,
    ACL_FORMAT_HWCN = 16,
    ACL_FORMAT_NDHWC = 27,
    ACL_FORMAT_FRACTAL_NZ = 29,
    ACL_FORMAT_NCDHW = 30,
    ACL_FORMAT_NDC1HWC0 = 32,
    ACL_FRACTAL_Z_3D = 33,
    ACL_FORMAT_NC = 35,
    ACL_FORMAT_NCL = 47,
    ACL_FORMAT_FRACTAL_NZ_C0_16 = 50,
    ACL_FORMAT_FRACTAL_NZ_C0_32 = 51,
    ACL_FORMAT_FRACTAL_NZ_C0_2 = 52,
    ACL_FORMAT_FRACTAL_NZ_C0_4 = 53,
    ACL_FORMAT_FRACTAL_NZ_C0_8 = 54,
} aclFormat;

typedef enum {
    ACL_DEVICE_INFO_UNDEFINED = -1,
    ACL_DEVICE_INFO_AI_CORE_NUM = 0,
    ACL_DEVICE_INFO_VECTOR_CORE_NUM = 1,
    ACL_DEVICE_INFO_L2_SIZE = 2,
} aclDeviceInfo;

typedef enum {
    ACL_PKG_NAME_CANN = 0,
    ACL_PKG_NAME_RUNTIME = 1,
    ACL_PKG_NAME_COMPILER = 2,
    ACL_PKG_NAME_HCCL = 3,
    ACL_PKG_NAME_TOOLKIT = 4,
    ACL_PKG_NAME_OPP = 5,
    ACL_PKG_NAME_OPP_KERNEL = 6,
    ACL_PKG_NAME_DRIVER = 7,
} aclCANNPackageName;

typedef struct {
    char version[128];
    char majorVersion[64];
    char minorVersion[64];
    char releaseVersion[64];
    char patchVersion[64];
    char reserved[128];
} aclCANNPackageVersion;

size_t aclDataTypeSize(aclDataType dataType);
float aclFloat16ToFloat(aclFloat16 value);
aclFloat16 aclFloatToFloat16(float value);
/* acl_base_rt.h */
aclError aclGetDeviceCapability(uint32_t deviceId, aclDeviceInfo deviceInfo, int64_t *value);
/* Text of this thread's failures since the last call, newest first; NULL when there is none. The text is the
   library's and lives until the next call on this thread. */
const char *aclGetRecentErrMsg(void);

#ifdef __cplusplus
}
#endif

#endif /* ACLNN_KVCACHE_ACL_ACL_BASE_RT_H_ */
