# SPDX-License-Identifier: Apache-2.0
"""What each operator must compute, in plain NumPy: one pure function per operator, no library and no device.

An oracle follows the operator's contract, restated in its own docstring. It shares no code and no tables with the
simulator, so that an agreement between the two means something.
"""

from .qkv_non_finite import NonFiniteRow, non_finite_rows
from .qkv_rms_norm_rope_cache_with_k_scale import QkvResult, qkv_rms_norm_rope_cache_with_k_scale
from .scatter_pa_kv_cache_with_k_scale import ScatterResult, scatter_pa_kv_cache_with_k_scale

__all__ = [
    "NonFiniteRow",
    "QkvResult",
    "ScatterResult",
    "non_finite_rows",
    "qkv_rms_norm_rope_cache_with_k_scale",
    "scatter_pa_kv_cache_with_k_scale",
]
