/* SPDX-License-Identifier: Apache-2.0 */
/* Optional beside aclInit (acl_abi 3.4). The one setting of the file, the debug kernel, changes no result; so the file
   has to be there and its content does not matter. */
#include <stdio.h>

#include "aclnn/aclnn_base.h"
#include "core/export.h"
#include "core/faults.h"
#include "core/message.h"
#include "opdev/op_errno.h"

SIM_EXPORT aclnnStatus aclnnInit(const char *configPath)
{
    SIM_CALL(aclnnInit(configPath));
    if (configPath == NULL || configPath[0] == '\0') {
        return ACLNN_SUCCESS;
    }
    FILE *file = fopen(configPath, "re");
    if (file == NULL) {
        sim_message("EZ1003", "File_Operation_Error_Open", "%s: %s cannot be opened", __func__, configPath);
        return ACLNN_ERR_PARAM_INVALID;
    }
    fclose(file);
    return ACLNN_SUCCESS;
}

SIM_EXPORT aclnnStatus aclnnFinalize(void)
{
    SIM_CALL(aclnnFinalize());
    return ACLNN_SUCCESS;
}
