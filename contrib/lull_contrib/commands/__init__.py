# SPDX-License-Identifier: GPL-2.0-only
"""One module per subcommand: ``add_arguments(parser)`` and ``run(lab, arguments) -> exit code``."""
