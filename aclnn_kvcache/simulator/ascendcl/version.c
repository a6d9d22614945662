/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "acl/acl_rt.h"
#include "api.h"
#include "core/device.h"
#include "core/faults.h"
#include "core/profile.h"

/* The release that this library is built as; a profile may say another. */
#ifndef SIM_CANN_VERSION
#define SIM_CANN_VERSION "9.1.0"
#endif

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

typedef struct {
    const char *text;
    int major;
    int minor;
    int patch;
} release;

/* CANN reads files of the installation, and answers 100003 where they do not tell the version. */
static aclError read_release(const char *function, release *r)
{
    const sim_profile *profile = sim_profile_require(function, ACL_ERROR_INVALID_FILE);
    if (profile == NULL) {
        return ACL_ERROR_INVALID_FILE;
    }
    r->text = profile->cann[0] == '\0' ? SIM_CANN_VERSION : profile->cann;
    sscanf(r->text, "%d.%d.%d", &r->major, &r->minor, &r->patch);
    return ACL_SUCCESS;
}

/* Minor versions of the runtime's interface, each with the first release that has it. */
static const struct {
    int major;
    int minor;
    int interface;
} interfaces[] = {{9, 0, 17}, {8, 5, 16}, {8, 1, 12}, {0, 0, 2}};

static int interface_of(const release *r)
{
    size_t i = 0;
    while (r->major < interfaces[i].major || (r->major == interfaces[i].major && r->minor < interfaces[i].minor)) {
        ++i;
    }
    return interfaces[i].interface;
}

SIM_EXPORT aclError aclrtGetVersion(int32_t *majorVersion, int32_t *minorVersion, int32_t *patchVersion)
{
    ENTER_ANY_TIME(aclrtGetVersion(majorVersion, minorVersion, patchVersion));
    REQUIRE(majorVersion);
    REQUIRE(minorVersion);
    REQUIRE(patchVersion);
    release r;
    TRY(read_release(__func__, &r));
    *majorVersion = 1;
    *minorVersion = interface_of(&r);
    *patchVersion = 0;
    return ACL_SUCCESS;
}

SIM_EXPORT aclError aclsysGetCANNVersion(aclCANNPackageName name, aclCANNPackageVersion *version)
{
    ENTER_ANY_TIME(aclsysGetCANNVersion(name, version));
    REQUIRE(version);
    if ((unsigned)name > ACL_PKG_NAME_DRIVER) {
        return FAIL(ACL_ERROR_INVALID_PARAM, "name is %d; expected 0 to %d", (int)name, ACL_PKG_NAME_DRIVER);
    }
    if (name != ACL_PKG_NAME_CANN && name != ACL_PKG_NAME_RUNTIME) {
        return FAIL(ACL_ERROR_INVALID_FILE, "name is %d; the simulator has no such package", (int)name);
    }
    release r;
    TRY(read_release(__func__, &r));
    memset(version, 0, sizeof *version);
    snprintf(version->version, sizeof version->version, "%s", r.text);
    snprintf(version->majorVersion, sizeof version->majorVersion, "%d", r.major);
    snprintf(version->minorVersion, sizeof version->minorVersion, "%d", r.minor);
    snprintf(version->releaseVersion, sizeof version->releaseVersion, "%d", r.patch);
    snprintf(version->patchVersion, sizeof version->patchVersion, "0");
    return ACL_SUCCESS;
}

SIM_EXPORT aclError aclsysGetVersionStr(char *pkgName, char *versionStr)
{
    ENTER_ANY_TIME(aclsysGetVersionStr(pkgName, versionStr));
    REQUIRE(pkgName);
    REQUIRE(versionStr);
    if (!is_installed(pkgName)) {
        return FAIL(ACL_ERROR_INVALID_FILE, "pkgName is \"%s\"; the simulator has no such package", pkgName);
    }
    release r;
    TRY(read_release(__func__, &r));
    memcpy(versionStr, r.text, strlen(r.text) + 1);
    return ACL_SUCCESS;
}

SIM_EXPORT aclError aclsysGetVersionNum(char *pkgName, int32_t *versionNum)
{
    ENTER_ANY_TIME(aclsysGetVersionNum(pkgName, versionNum));
    REQUIRE(pkgName);
    REQUIRE(versionNum);
    if (!is_installed(pkgName)) {
        return FAIL(ACL_ERROR_INVALID_FILE, "pkgName is \"%s\"; the simulator has no such package", pkgName);
    }
    release r;
    TRY(read_release(__func__, &r));
    *versionNum = r.major * 10000000 + r.minor * 100000 + r.patch * 1000;
    return ACL_SUCCESS;
}

SIM_EXPORT const char *aclrtGetSocName(void)
{
    SIM_CALL(aclrtGetSocName());
    if (sim_process_forked()) {
        sim_fail_forked(__func__);
        return NULL;
    }
    return sim_device_soc_name(__func__, ACL_ERROR_RT_SOC_VERSION);
}

SIM_EXPORT aclError aclrtGetRunMode(aclrtRunMode *runMode)
{
    ENTER_ANY_TIME(aclrtGetRunMode(runMode));
    REQUIRE(runMode);
    *runMode = ACL_HOST;
    return ACL_SUCCESS;
}
