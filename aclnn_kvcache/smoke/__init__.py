# SPDX-License-Identifier: Apache-2.0
"""Seeded cases, the runner, and the JSON and JUnit reports of ``aclnn-kvcache smoke``."""
