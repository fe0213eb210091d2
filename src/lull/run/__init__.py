# SPDX-License-Identifier: GPL-2.0-only
"""A run: boots in turns, kept one by one, and the records they leave; or the same programs without QEMU."""
