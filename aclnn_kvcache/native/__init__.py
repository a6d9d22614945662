# SPDX-License-Identifier: Apache-2.0
"""Finding, loading and typing the native libraries."""
