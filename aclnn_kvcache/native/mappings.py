# SPDX-License-Identifier: Apache-2.0
"""What is mapped into this process."""

from __future__ import annotations

from collections.abc import Iterator


def mappings() -> Iterator[tuple[int, int, str]]:
    """First address, end and file of what is mapped. Raises OSError where /proc is not mounted."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        for line in maps:
            fields = line.rstrip("\n").split(maxsplit=5)
            if len(fields) == 6 and fields[5].startswith("/"):
                start, _, end = fields[0].partition("-")
                yield int(start, 16), int(end, 16), fields[5]
