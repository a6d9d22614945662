# SPDX-License-Identifier: Apache-2.0
"""Whether this machine can run the operators, and what to do if it cannot."""

from aclnn_kvcache.doctor.examination import examine
from aclnn_kvcache.doctor.report import Line, Report

__all__ = ["Line", "Report", "examine"]
