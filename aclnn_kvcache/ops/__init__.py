# SPDX-License-Identifier: Apache-2.0
"""The operators: one file each, with its signature, its checks before the launch, and the call."""
