# SPDX-License-Identifier: GPL-2.0-only
"""The lab of Lull: builds and boots arm64 kernels that avoid broadcast TLB invalidations, measures and checks them.

The command ``./lull`` starts ``lull.cli``. docs/architecture.md says which package does what.
"""

__version__ = "0.1.0"
"""The only place of the version. CONTRIBUTING.md says how a release is made."""
