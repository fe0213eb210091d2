# SPDX-License-Identifier: GPL-2.0-only
"""`lull check`: boot kernels under the QEMU plugin's check mode, and judge each boot by the plugin's reports.

A *trial* is one boot of one kernel on one machine, with a mutant switched on or without one. Module ``trials`` plans
the trials, ``kernels`` and ``boots`` boot them, ``verdicts`` judges them, ``results`` writes check.json and
results.json, and ``show`` prints the tables. ``conduct`` does all this in turn and returns the exit status.
"""
