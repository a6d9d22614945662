#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs ``aclnn-kvcache bench`` with the arguments given, for CI: ``scripts/bench.py --backend simulator --json``."""

import sys

from aclnn_kvcache.cli import main

sys.exit(main(["bench", *sys.argv[1:]]))
