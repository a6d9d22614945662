/* SPDX-License-Identifier: Apache-2.0 */
/* What the checks say of a kernel's accesses, tensor by tensor. */
#ifndef ACLSIM_OPAPI_DEVICE_CHECK_H_
#define ACLSIM_OPAPI_DEVICE_CHECK_H_

#include "core/memory_check.h"
#include "opapi/op_operand.h"

/* What this thread's kernel is at from here on: which token, and what of it decides the addresses, such as slot 5. */
void device_at_token(uint64_t token, const char *what, int64_t value);
void device_at_no_token(void);

/* Whether the range belongs to the tensor, and to the memory that its allocation was asked for. Reports where it does
   not, once for each tensor and token. Always, while memory is not checked. */
bool device_check_bounds(const op_operand_place *of, uint64_t address, uint64_t bytes, sim_access access);

/* Looks for bytes of the range that were never written. The range can be read. */
void device_check_written(const op_operand_place *of, uint64_t address, uint64_t bytes);

/* At the end of the kernel: reports what was found, once for each allocation and operator, by the lowest token. */
void device_report_unwritten(void);

#endif
