/* SPDX-License-Identifier: Apache-2.0 */
#include "opapi/qkv_rows.h"

const qkv_arithmetic *qkv_arithmetic_here(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
        return &qkv_arithmetic_avx512;
    }
    if (__builtin_cpu_supports("avx2")) {
        return &qkv_arithmetic_avx2;
    }
#endif
    return &qkv_arithmetic_baseline;
}
