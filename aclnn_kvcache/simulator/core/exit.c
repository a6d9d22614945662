/* SPDX-License-Identifier: Apache-2.0 */
/* The end of the process, which waits for nothing: what nobody will hear of any more. */
#include "core/process.h"
#include "core/stream.h"

__attribute__((destructor)) static void report_streams(void)
{
    if (!sim_process_forked()) {
        sim_streams_report_end("exit", "exit_in_flight");
    }
}
