# SPDX-License-Identifier: GPL-2.0-only
"""Optional parts of the lab. They use lull; nothing in lull imports them, and it works without this folder.

A command is the module of its name in ``lull_contrib.commands``, made like those in ``lull.commands``.
"""

COMMANDS = {
    "bench": "run the workloads on an arm64 machine itself, under the kernel that it runs",
    "calibrate": "measure the costs that the model of time needs, on an arm64 machine",
    "timing": "check the model of a machine's time against simulation and published numbers",
    "x86": "measure a feature on x86-64",
    "aging": "compare ways to clear the accessed bit by the rules of a published study",
    "port": "bring the features to another Linux, and build, boot and check it there",
    "soak": "boot random mixes of workloads under the TLB checker, for a given time",
    "search": "search for programs under which the TLB checker reports something",
    "upstream": "show whether series and fixes apply to the newest Linux, and what Linux has fixed",
}
"""The commands, and what ``--help`` says of each."""
