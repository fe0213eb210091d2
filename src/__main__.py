# SPDX-License-Identifier: GPL-2.0-only
"""The tool, started as ``python src``."""

import sys

from lull.cli import main

sys.exit(main())
