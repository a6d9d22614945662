# SPDX-License-Identifier: Apache-2.0
"""Native resources: the process, a device, streams, events, memory and descriptors. Every handle has one owner."""
