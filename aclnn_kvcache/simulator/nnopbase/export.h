/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ACLSIM_NNOPBASE_EXPORT_H_
#define ACLSIM_NNOPBASE_EXPORT_H_

/* Marks the definitions that carry CANN's names; everything else is hidden. */
#define SIM_ACLNN_EXPORT __attribute__((visibility("default")))

#endif
