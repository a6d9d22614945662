/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes in front of a block and behind what was asked for, CANN's padding among them, that nobody may change. Accesses
   that the simulator knows of never reach them; what does is code that goes its own way. */
#ifndef ACLSIM_CORE_GUARD_H_
#define ACLSIM_CORE_GUARD_H_

#include "core/arena.h"

/* Both with the arena's lock. The second reports the first byte that changed, under the function's name. */
void sim_guard_lay(const sim_arena *arena, const sim_block *block);
void sim_guard_inspect(const sim_arena *arena, const sim_block *block, const char *function);

#endif
