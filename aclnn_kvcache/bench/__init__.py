# SPDX-License-Identifier: Apache-2.0
"""What calls, oracles and kernels cost, each as a ratio to a baseline measured in the same run."""
