# SPDX-License-Identifier: GPL-2.0-only
"""What is said of a machine beside its results. Nothing that names the machine, its network or its users.

Every fact is a number, one of the kernel's own words, or a line of which the form is known: no file is copied whole.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from lull.linux.switches import FOLDER
from lull_contrib.day.machine import Machine

CPU = "sys/devices/system/cpu"
BEGINNING = "Booting Linux"
"""A kernel log without this line has lost its beginning: that it lacks another line then says nothing."""
DETECTED = re.compile(r"CPU features: detected: ([\w /,.()+'-]+)$", re.MULTILINE)
WORKAROUND = re.compile(r"errat|workaround|broken", re.IGNORECASE)
RANGES = "TLB range maintenance instructions"
BBML2 = "BBM Level 2 without TLB conflict abort"
PARAMETERS = re.compile(
    r"(?:isolcpus|nohz_full|rcu_nocbs|kpti|mitigations|nosmt|maxcpus|nr_cpus|hugetlb_free_vmemmap|transparent_hugepage|"
    r"arm64\.no\w+|lull[._]\w+|preempt|irqaffinity|panic)(?:=[\w,.:+-]*)?"
)
"""The kernel parameters that are recorded: others may name disks, hosts or consoles."""
SLOWS = re.compile(r"cpu|processor", re.IGNORECASE)
"""The cooling devices that slow CPUs down; others are fans."""
ENTRY = re.compile(r"[\w .,:;()/*=+'\[\]-]{0,160}")
"""The form of a word that is recorded from a file."""


def word(machine: Machine, name: str) -> str:
    """The text of a file of one short line; empty when it has another form."""
    text = machine.read(name)
    return text if ENTRY.fullmatch(text) else ""


def counted(machine: Machine, pattern: str) -> dict[str, int]:
    """Contents of files -> how many have it."""
    return dict(Counter(filter(None, (word(machine, name) for name in machine.glob(pattern)))))


def parts(machine: Machine) -> list[str]:
    """Implementer and part number of each kind of CPU, with variant and revision left out."""
    text = machine.read("proc/cpuinfo")
    implementers, numbers = (re.findall(rf"(?m)^CPU {name}\s*: (\w+)$", text) for name in ("implementer", "part"))
    return sorted({f"{implementer}/{part}" for implementer, part in zip(implementers, numbers, strict=False)})


def detected(machine: Machine) -> list[str] | None:
    """What the kernel's log says the CPUs have; None when the log cannot be read or has lost its beginning."""
    log = machine.ask("dmesg")
    return sorted(set(DETECTED.findall(log))) if BEGINNING in log else None


def of_kernel(machine: Machine) -> dict[str, Any]:
    """The machine as the running kernel sees it."""
    found = detected(machine)
    compiler = re.search(r"^Linux version \S+ \(\S+\) \((.*?)\) #", machine.read("proc/version"))
    hwcaps = re.search(r"(?m)^Features\s*: ([\w ]+)$", machine.read("proc/cpuinfo"))
    yes_no = {True: "yes", False: "no"}
    return {
        "release": machine.release,
        "compiler": compiler[1] if compiler and ENTRY.fullmatch(compiler[1]) else "",
        "cpu parts": parts(machine),
        "midr": counted(machine, f"{CPU}/cpu[0-9]*/regs/identification/midr_el1"),
        "cpus online": word(machine, f"{CPU}/online"),
        "hwcaps": hwcaps[1].split() if hwcaps else [],
        "detected": found,
        "errata workarounds": None if found is None else [name for name in found if WORKAROUND.search(name)],
        "range TLBIs": "not known" if found is None else yes_no[RANGES in found],
        # Only kernels that use BBML2 print it. No kernel prints FEAT_nTLBPA, and the register is hidden from programs.
        "BBML2": "yes" if found and BBML2 in found else "not known: look up the MIDR",
        "nTLBPA": "not known: look up the MIDR",
        "vulnerabilities": {
            name.rpartition("/")[2]: word(machine, name) for name in machine.glob(f"{CPU}/vulnerabilities/*")
        },
        "smt": word(machine, f"{CPU}/smt/control") or "none",
        "virtualization": machine.ask("systemd-detect-virt") or "none",
        "model": word(machine, "proc/device-tree/model") or word(machine, "sys/class/dmi/id/product_name"),
        "memory GiB": round(int((re.findall(r"MemTotal:\s+(\d+)", machine.read("proc/meminfo")) or ["0"])[0]) / 2**20),
        "NUMA nodes": len(machine.glob("sys/devices/system/node/node[0-9]*")),
        "sockets": len(counted(machine, f"{CPU}/cpu[0-9]*/topology/physical_package_id")),
        "swap in memory": "/dev/zram" in machine.read("proc/swaps"),
        "huge pages": word(machine, "sys/kernel/mm/transparent_hugepage/enabled"),
        "parameters": [p for p in machine.read("proc/cmdline").split() if PARAMETERS.fullmatch(p)],
        "switches": {
            name.rpartition("/")[2]: word(machine, name) for name in machine.glob(f"{FOLDER.relative_to('/')}/*")
        },
        "frequency": {
            name: counted(machine, f"{CPU}/cpu[0-9]*/cpufreq/{name}")
            for name in ("scaling_driver", "scaling_governor", "scaling_min_freq", "scaling_max_freq")
        },
    }


def of_moment(machine: Machine) -> dict[str, Any]:
    """What may differ between two moments: clocks, heat, and how busy the machine is."""
    clocks = [int(value) for value in counted(machine, f"{CPU}/cpu[0-9]*/cpufreq/scaling_cur_freq") if value.isdigit()]
    zones = [int(value) for value in counted(machine, "sys/class/thermal/thermal_zone*/temp") if value.isdigit()]
    coolers = [name.rpartition("/")[0] for name in machine.glob("sys/class/thermal/cooling_device*/type")]
    slowing = [c for c in coolers if SLOWS.search(word(machine, f"{c}/type"))]
    return {
        "lowest clock, kHz": min(clocks, default=None),
        "highest clock, kHz": max(clocks, default=None),
        "hottest, millidegrees": max(zones, default=None),
        "CPUs slowed by heat": sum(word(machine, f"{cooler}/cur_state") not in ("", "0") for cooler in slowing)
        if slowing
        else None,
        "load": machine.read("proc/loadavg").split(" ")[0],
    }
