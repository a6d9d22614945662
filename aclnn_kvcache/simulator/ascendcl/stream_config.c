/* SPDX-License-Identifier: Apache-2.0 */
#include "stream_config.h"

#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "core/faults.h"
#include "core/handle.h"
#include "core/handle_report.h"

static const struct {
    size_t offset;
    size_t size;
} fields[] = {
    [ACL_RT_STREAM_WORK_ADDR_PTR] = {offsetof(aclrtStreamConfigHandle, workptr), sizeof(void *)},
    [ACL_RT_STREAM_WORK_SIZE] = {offsetof(aclrtStreamConfigHandle, workSize), sizeof(size_t)},
    [ACL_RT_STREAM_FLAG] = {offsetof(aclrtStreamConfigHandle, flag), sizeof(size_t)},
    [ACL_RT_STREAM_PRIORITY] = {offsetof(aclrtStreamConfigHandle, priority), sizeof(uint32_t)},
};

static aclError stale(const char *function, const void *handle)
{
    sim_report_handle(function, "handle", SIM_STREAM_CONFIG, handle);
    return sim_fail(ACL_ERROR_RT_INVALID_HANDLE, function,
        "handle is %p; expected one from aclrtCreateStreamConfigHandle that was not destroyed", handle);
}

aclError stream_config_read(const char *function, const aclrtStreamConfigHandle *handle,
    aclrtStreamConfigHandle *config)
{
    const aclrtStreamConfigHandle *held = sim_handle_get(SIM_STREAM_CONFIG, handle);
    if (held == NULL) {
        return stale(function, handle);
    }
    *config = *held;
    return ACL_SUCCESS;
}

SIM_EXPORT aclrtStreamConfigHandle *aclrtCreateStreamConfigHandle(void)
{
    SIM_CALL(aclrtCreateStreamConfigHandle());
    if (sim_process_forked()) {
        sim_fail_forked(__func__);
        return NULL;
    }
    aclrtStreamConfigHandle *config = calloc(1, sizeof *config);
    void *handle = config == NULL ? NULL : sim_handle_create(SIM_STREAM_CONFIG, config, __func__);
    if (handle == NULL) {
        free(config);
    }
    return handle;
}

SIM_EXPORT aclError aclrtSetStreamConfigOpt(aclrtStreamConfigHandle *handle, aclrtStreamConfigAttr attr,
    const void *attrValue, size_t valueSize)
{
    ENTER(aclrtSetStreamConfigOpt(handle, attr, attrValue, valueSize));
    REQUIRE(handle);
    REQUIRE(attrValue);
    aclrtStreamConfigHandle *config = sim_handle_get(SIM_STREAM_CONFIG, handle);
    if (config == NULL) {
        return stale(__func__, handle);
    }
    if ((unsigned)attr >= sizeof fields / sizeof *fields) {
        return FAIL(ACL_ERROR_INVALID_PARAM, "attr is %d; expected 0 to 3", (int)attr);
    }
    if (valueSize < fields[attr].size) {
        return FAIL(ACL_ERROR_INVALID_PARAM, "valueSize is %zu; expected %zu", valueSize, fields[attr].size);
    }
    memcpy((char *)config + fields[attr].offset, attrValue, fields[attr].size);
    return ACL_SUCCESS;
}

SIM_EXPORT aclError aclrtDestroyStreamConfigHandle(aclrtStreamConfigHandle *handle)
{
    ENTER(aclrtDestroyStreamConfigHandle(handle));
    REQUIRE(handle);
    void *config = sim_handle_remove(SIM_STREAM_CONFIG, handle, __func__);
    if (config == NULL) {
        return stale(__func__, handle);
    }
    free(config);
    return ACL_SUCCESS;
}
