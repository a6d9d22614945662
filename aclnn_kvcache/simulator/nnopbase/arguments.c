/* SPDX-License-Identifier: Apache-2.0 */
#include "nnopbase/arguments.h"

#include "core/handle_report.h"
#include "core/message.h"

/* 161xxx is reported as EZ1001 and 561xxx as EZ9999 (acl_abi 5.3). */
static const struct {
    aclnnStatus family;
    const char *code;
    const char *title;
} families[] = {
    {161, "EZ1001", "AclNN_Parameter_Error"},
    {561, "EZ9999", "AclNN_Inner_Error"},
};

aclnnStatus sim_null_argument(const char *function, const char *parameter, aclnnStatus status)
{
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        if (families[i].family == status / 1000) {
            sim_message(families[i].code, families[i].title, "%s: %s is a null pointer (%d)", function, parameter,
                        status);
        }
    }
    return status;
}

void *sim_live_object(sim_kind kind, const void *handle, const char *function, const char *parameter)
{
    void *object = sim_handle_get(kind, handle);

    if (object == NULL) {
        sim_report_handle(function, parameter, kind, handle);
    }
    return object;
}
