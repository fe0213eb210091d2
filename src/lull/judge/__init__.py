# SPDX-License-Identifier: GPL-2.0-only
"""What numbers say: the comparison, and a module for each feature's goals."""
