/* SPDX-License-Identifier: Apache-2.0 */
/* What aclGetRecentErrMsg returns, and reports of undefined use. */
#ifndef ACLSIM_CORE_MESSAGE_H_
#define ACLSIM_CORE_MESSAGE_H_

/* Adds a message to this thread's container: "[PID: n] time Title(CODE): text". */
void sim_message(const char *code, const char *title, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The same with the indented "Solution:" line behind it. */
void sim_message_solution(const char *code, const char *title, const char *solution, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Adds an indented line under "TraceBack (most recent call last):" of the newest message. */
void sim_message_trace(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Reports, on standard error and in ACLSIM_MISUSES, a call that CANN lets through although its behaviour is undefined.
   The status that the caller gets is not changed by it. */
void sim_misuse(const char *function, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
