# SPDX-License-Identifier: GPL-2.0-only
"""From packages to kernels, and what people take with them: trees, builds, a series for ``git am``, packages."""
