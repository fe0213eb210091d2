# SPDX-License-Identifier: GPL-2.0-only
"""Lull: an arm64 kernel that spends almost nothing on TLB maintenance, and the lab that proves it."""

__version__ = "0.1.0"
