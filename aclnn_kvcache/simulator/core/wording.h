/* SPDX-License-Identifier: Apache-2.0 */
/* What printf's conversions cannot say well, put right in finished sentences. */
#ifndef ACLSIM_CORE_WORDING_H_
#define ACLSIM_CORE_WORDING_H_

/* In place: "(nil)" becomes NULL, and "1 bytes" one byte. Safe in a signal handler. */
void sim_wording_polish(char *text);

#endif
