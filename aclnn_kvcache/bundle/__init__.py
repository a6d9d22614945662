# SPDX-License-Identifier: Apache-2.0
"""One call kept as a folder: a manifest in JSON and the bytes of every storage. Written, read, and recorded."""
