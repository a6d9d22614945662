# SPDX-License-Identifier: Apache-2.0
"""``python -m aclnn_kvcache`` is the command ``aclnn-kvcache``."""

import sys

from aclnn_kvcache.cli import main

sys.exit(main())
