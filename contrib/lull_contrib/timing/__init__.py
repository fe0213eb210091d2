# SPDX-License-Identifier: GPL-2.0-only
"""Evaluate modelled time: against a second program's simulation, and against published numbers."""
