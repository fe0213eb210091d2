# SPDX-License-Identifier: GPL-2.0-only
"""``python -m lull``."""

import sys

from lull.cli import main

sys.exit(main())
