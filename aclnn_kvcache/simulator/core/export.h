/* SPDX-License-Identifier: Apache-2.0 */
/* Everything is hidden unless marked: CANN's names in the libraries that carry them, and what crosses libraries. */
#ifndef ACLSIM_CORE_EXPORT_H_
#define ACLSIM_CORE_EXPORT_H_

#define SIM_EXPORT __attribute__((visibility("default")))

#endif
