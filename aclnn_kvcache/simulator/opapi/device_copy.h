/* SPDX-License-Identifier: Apache-2.0 */
/* Element moves between device addresses, for kernels. Every access is carried out where it lies in one live
   allocation and is a fault everywhere else. With memory checked, a write that leaves its tensor is reported and not
   carried out; that is no fault, for the device would not know either. */
#ifndef ACLSIM_OPAPI_DEVICE_COPY_H_
#define ACLSIM_OPAPI_DEVICE_COPY_H_

#include "core/footprint.h"
#include "opapi/op_operand.h"

/* A run of elements of a tensor: address of the first one and bytes from one to the next (modulo 2^64, so it may go
   down). */
typedef struct {
    const op_operand_place *of;
    uint64_t address;
    uint64_t step;
} device_run;

/* false on a fault; what lies before it is written. */
bool device_move(const device_run *to, const device_run *from, uint64_t count);

/* The same for several runs, each so many bytes behind the one before. */
typedef struct {
    device_run first;
    uint64_t next;
} device_rows;

bool device_move_rows(const device_rows *to, const device_rows *from, uint64_t rows, uint64_t count);

/* The Contiguous and ViewCopy of CANN: the whole view, in row-major order, into dense memory and back. Copies may hold
   what was never written; what uses them may not. */
bool device_view_to_dense(const op_operand_place *view, const op_operand_place *dense);
bool device_dense_to_view(const op_operand_place *view, const op_operand_place *dense);

/* Bytes out of a tensor and into it; false on a fault, and then nothing is moved. */
bool device_read(const op_operand_place *of, uint64_t address, void *value, size_t bytes);
bool device_write(const op_operand_place *of, uint64_t address, const void *value, size_t bytes);

/* A row of which a result is made, perhaps in its own place: then all of it is read before any is written. */
bool device_read_row(const op_operand_place *of, uint64_t address, void *value, size_t bytes, bool is_in_place);

/* Tells the checks of bytes that were touched elsewhere. Copies are part of the workspace, which a launch has as a
   whole. */
void device_note(const op_operand_place *of, uint64_t address, uint64_t bytes, sim_touch touch);

#endif
