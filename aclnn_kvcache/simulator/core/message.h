/* SPDX-License-Identifier: Apache-2.0 */
/* What aclGetRecentErrMsg returns. */
#ifndef ACLSIM_CORE_MESSAGE_H_
#define ACLSIM_CORE_MESSAGE_H_

#include "core/export.h"

/* Adds a message to this thread's container: "[PID: n] time Title(CODE): text". */
SIM_EXPORT void sim_message(const char *code, const char *title, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same with the indented "Solution:" line behind it. */
SIM_EXPORT void sim_message_solution(const char *code, const char *title, const char *solution, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Adds an indented line under "TraceBack (most recent call last):" of the newest message. */
SIM_EXPORT void sim_message_trace(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* This thread's messages as one text, newest first, and an empty container; NULL when there was none. The text lives
   until the next call on this thread. */
SIM_EXPORT const char *sim_message_take(void);

/* Empties this thread's container. */
void sim_message_drop(void);

#endif
