# SPDX-License-Identifier: GPL-2.0-only
"""From Debian's source package to kernels: fetch and unpack it, apply features, build.

Also makes what users take away: a git tree to work in, a series for ``git am``, and Debian packages.
"""
