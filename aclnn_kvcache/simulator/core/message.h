/* SPDX-License-Identifier: Apache-2.0 */
/* What aclGetRecentErrMsg returns, and reports of undefined use. */
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

/* Reports, on standard error and in ACLSIM_MISUSES, a call that CANN lets through although its behaviour is undefined.
   The status that the caller gets is not changed by it. */
SIM_EXPORT void sim_misuse(const char *function, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* This thread's messages as one text, newest first, and an empty container; NULL when there was none. The text lives
   until the next call on this thread. */
SIM_EXPORT const char *sim_message_take(void);

#endif
