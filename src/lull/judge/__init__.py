# SPDX-License-Identifier: GPL-2.0-only
"""Judge the numbers of a run: compare kernels, and test each feature's thresholds.

``verdict`` ties it together: it adds the checks to a run's results and writes and prints the tables. ``compare`` and
``stats`` compare kernels, ``tables`` shows comparisons, ``joint`` compares runs. ``thresholds`` has what those of all
features share. The thresholds of a feature are in the module with its name, those of the programs of `--suite real` in
``real``; ``features`` finds these modules.
"""
