/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "acl/acl_rt.h"
#include "api.h"
#include "core/device.h"

#define CANN_VERSION "9.1.0"
#define CANN_VERSION_NUMBER 90100000

/* The packages whose work the simulator does; "-" and "_" are the same in a name. */
static const char *const packages[] = {"runtime", "opbase", "ops-transformer"};

static int same_name(const char *a, const char *b)
{
    while (*a != '\0' && (*a == *b || (*a == '_' && *b == '-'))) {
        ++a;
        ++b;
    }
    return *a == *b;
}

static int is_installed(const char *name)
{
    for (size_t i = 0; i < sizeof packages / sizeof *packages; ++i) {
        if (same_name(name, packages[i])) {
            return 1;
        }
    }
    return 0;
}

SIM_EXPORT aclError aclrtGetVersion(int32_t *majorVersion, int32_t *minorVersion, int32_t *patchVersion)
{
    ENTER();
    REQUIRE(majorVersion);
    REQUIRE(minorVersion);
    REQUIRE(patchVersion);
    *majorVersion = 1;
    *minorVersion = 17;
    *patchVersion = 0;
    return ACL_SUCCESS;
}

SIM_EXPORT aclError aclsysGetCANNVersion(aclCANNPackageName name, aclCANNPackageVersion *version)
{
    ENTER();
    REQUIRE(version);
    if ((unsigned)name > ACL_PKG_NAME_DRIVER) {
        return FAIL(ACL_ERROR_INVALID_PARAM, "name is %d; expected 0 to %d", (int)name, ACL_PKG_NAME_DRIVER);
    }
    if (name != ACL_PKG_NAME_CANN && name != ACL_PKG_NAME_RUNTIME) {
        return FAIL(ACL_ERROR_INVALID_FILE, "name is %d; the simulator has no such package", (int)name);
    }
    memset(version, 0, sizeof *version);
    snprintf(version->version, sizeof version->version, CANN_VERSION);
    snprintf(version->majorVersion, sizeof version->majorVersion, "9");
    snprintf(version->minorVersion, sizeof version->minorVersion, "1");
    snprintf(version->releaseVersion, sizeof version->releaseVersion, "0");
    snprintf(version->patchVersion, sizeof version->patchVersion, "0");
    return ACL_SUCCESS;
}

SIM_EXPORT aclError aclsysGetVersionStr(char *pkgName, char *versionStr)
{
    ENTER();
    REQUIRE(pkgName);
    REQUIRE(versionStr);
    if (!is_installed(pkgName)) {
        return FAIL(ACL_ERROR_INVALID_FILE, "pkgName is \"%s\"; the simulator has no such package", pkgName);
    }
    memcpy(versionStr, CANN_VERSION, sizeof CANN_VERSION);
    return ACL_SUCCESS;
}

SIM_EXPORT aclError aclsysGetVersionNum(char *pkgName, int32_t *versionNum)
{
    ENTER();
    REQUIRE(pkgName);
    REQUIRE(versionNum);
    if (!is_installed(pkgName)) {
        return FAIL(ACL_ERROR_INVALID_FILE, "pkgName is \"%s\"; the simulator has no such package", pkgName);
    }
    *versionNum = CANN_VERSION_NUMBER;
    return ACL_SUCCESS;
}

SIM_EXPORT const char *aclrtGetSocName(void)
{
    if (sim_process_forked()) {
        sim_fail_forked(__func__);
        return NULL;
    }
    return SIM_SOC_NAME;
}

SIM_EXPORT aclError aclrtGetRunMode(aclrtRunMode *runMode)
{
    ENTER();
    REQUIRE(runMode);
    *runMode = ACL_HOST;
    return ACL_SUCCESS;
}
