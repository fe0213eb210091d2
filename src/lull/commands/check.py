# SPDX-License-Identifier: GPL-2.0-only
"""lull check: kernels under a TLB that forgets nothing, and the mutants that it must catch."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from lull import options, plan, timing
from lull.check import ci, data
from lull.check.conduct import do_check
from lull.check.kernels import CheckedKernel, is_plain, of_debian, of_user, users_name
from lull.check.trials import CheckOptions, Trial, plan_kernels, plan_mutants
from lull.errors import UsageError, require_known
from lull.lab import Lab
from lull.linux import debian
from lull.progress import print_result

DEFAULT_MACHINE = "max"
HOST = "host"
"""The suite in which the guest is a host of virtual machines."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``lull check``."""
    add, own = partial(options.add, parser), parser.add_argument
    add(
        "kernel",
        help="as for run (default: stock, lull, lull under the policies that a workload names, and lab); repeatable",
    )
    add(
        "workload",
        help="a workload of guest/workloads.toml (default: those marked default or check; for a mutant, "
        "its own); repeatable",
    )
    add(
        "cpu",
        **options.MACHINES,
        help="a machine of checker/machines.toml, or a value of QEMU's -cpu; with +kpti, +nokpti, +asid8, +mte, +sme, "
        f"+ntlbpa or +nontlbpa after it (default: {DEFAULT_MACHINE}); repeatable",
    )
    own("--machines", action="store_true", help="use every machine, with KPTI on and off, with 16-bit and 8-bit ASIDs")
    own("--mutant", metavar="M", **options.SEVERAL, help="boot the lab kernel with this bug switched on; repeatable")
    own("--mutants", action="store_true", help="boot the lab kernel with each mutant")
    own(
        "--host",
        dest="suite",
        action="store_const",
        const=HOST,
        help="check a host of virtual machines: as --suite host, by default the kernel stock",
    )
    own("image", nargs="?", type=Path, metavar="IMAGE", help="check your own kernel (also compressed)")
    own(
        "--symbols", type=Path, metavar="FILE", help="the System.map or vmlinux of IMAGE (default: read from the image)"
    )
    own(
        "--debian",
        metavar="RELEASE",
        **options.SEVERAL,
        help="check a kernel of Debian's, for example 7.3-arm64-16k ('lull list --debian' shows which), or 'newest', "
        "all that this list shows; repeatable",
    )
    add("repeat", default=1, help="boots of each kernel on each machine")
    add("vcpus")
    add("memory")
    own(
        "--speculation",
        choices=("on", "off"),
        default="on",
        help="off: a CPU caches only the translations that it used itself (default: on)",
    )
    own(
        "--checker",
        choices=("on", "off"),
        default="on",
        help="off: judge only what kernels report themselves, for kernels that are too slow under the "
        "checker (default: on)",
    )
    own("--kpti", choices=("on", "off"), help="switch page-table isolation on or off (default: the kernel decides)")
    own("--asid-bits", type=int, choices=(data.WIDE, data.NARROW), help="width of ASIDs (default: 16)")
    add("timing", help="also show what page walks for over-invalidated entries cost, by the cost 'walk' of this model")
    add("append")
    add("out")
    own(
        "--known",
        metavar="FILE",
        type=Path,
        help="issues of yours, as in checker/known-issues.toml, that fail no check",
    )
    own("--fixed", metavar="NAME", **options.SEVERAL, help="a known issue that fails this check; repeatable")
    own("--ktap", metavar="FILE", type=options.FILE, help="also write the results as KTAP")
    own("--junit", metavar="FILE", type=options.FILE, help="also write the results as JUnit's XML")
    own(
        "--bisect",
        action="store_true",
        help="exit codes for 'git bisect run': 0 good, 1 bad, 125 cannot be judged, 128 stop",
    )
    options.add_program(parser, options.OWN_SECONDS)
    parser.epilog = (
        "exit: 0 passed, or every mutant caught; 1 something was reported, a mutant missed, or nothing was seen\n"
        "'lull list' shows the names of kernels, workloads, machines and mutants.\n"
        "example: lull check vmlinuz-7.3.4-arm64\n"
        "         lull check --kernel stock --workload fork_exec --cpu cortex-a76+kpti"
    )


def hardware(arguments: argparse.Namespace, names: Sequence[str]) -> list[data.Hardware]:
    """The machines asked for, else those named in ``names``."""
    known = data.load_machines()
    kpti = None if arguments.kpti is None else arguments.kpti == "on"
    if arguments.machines:
        return data.matrix(known, kpti, arguments.asid_bits)
    found = (data.parse_hardware(name, known) for name in arguments.cpu or names)
    return list(dict.fromkeys(one.with_settings(kpti, arguments.asid_bits) for one in found))


def workloads(lab: Lab, arguments: argparse.Namespace) -> list[plan.Workload]:
    """The workloads asked for, or those to check with."""
    known = lab.workloads
    return plan.select_workloads(arguments.workload or [w.name for w in known.values() if w.default or w.check], known)


def mutants(lab: Lab, arguments: argparse.Namespace) -> list[Trial]:
    """The trials of the mutants asked for."""
    for option, given in (("--machines", arguments.machines), ("--kernel", arguments.kernel)):
        if given:
            raise UsageError(f"{option} does not go with mutants", remedy="leave it out: mutants are of the lab kernel")
    if not (image := lab.suite.lab) or not lab.suite.mutants:
        raise UsageError(f"suite {lab.suite.name} has no mutants", remedy="leave --suite out, or choose --host")
    require_known("kernel", [image], lab.base.kernels)
    known = data.load_mutants(lab.suite.mutants, lab.base)
    require_known("mutant", arguments.mutant, known)
    chosen: list[data.Mutant] = list(known.values()) if arguments.mutants else [known[n] for n in arguments.mutant]
    return plan_mutants(
        [
            (
                mutant,
                plan.select_workloads(arguments.workload or [mutant.workload], lab.workloads),
                hardware(arguments, [mutant.cpu or DEFAULT_MACHINE]),
            )
            for mutant in dict.fromkeys(chosen)
        ],
        arguments.repeat,
        image,
    )


def kernel_trials(lab: Lab, arguments: argparse.Namespace, given: Sequence[str]) -> list[Trial]:
    """The trials of the kernels asked for: of those that the user has, by their names, or else kernels of the base."""
    if given:
        specs = [plan.Spec(name, name) for name in given]
        pairs = [(w, spec) for spec in specs for w in workloads(lab, arguments)]
    else:
        default = ["stock"] if lab.suite.guests else []
        named = [plan.parse_spec(k, lab.base) for k in dict.fromkeys(arguments.kernel or default)]
        more = [] if named or plan.LAB not in lab.base.kernels else [plan.Spec(plan.LAB, plan.LAB)]
        chosen = workloads(lab, arguments)
        found = [(w, s) for w in chosen for s in [*plan.specs_for(w, named, lab.base), *more]]
        pairs = [pair for pair in dict.fromkeys(found) if pair[1] in named or sound(lab, pair[1])]
    return plan_kernels(pairs, hardware(arguments, [DEFAULT_MACHINE]), arguments.repeat)


def users_names(lab: Lab, arguments: argparse.Namespace) -> list[str]:
    """The names of ``users_kernels`` as far as they are known before anything is fetched."""
    if arguments.image:
        is_plain(arguments.image)  # refuses what is no kernel
        return [users_name(lab, arguments.image)]
    return list(dict.fromkeys(arguments.debian))


def users_kernels(lab: Lab, arguments: argparse.Namespace) -> list[CheckedKernel]:
    """The kernels that are not of the base: IMAGE, and Debian's."""
    if arguments.image:
        return [of_user(lab, arguments.image, arguments.symbols)]
    names = [name for given in dict.fromkeys(arguments.debian) for name in debian.names(lab.store, given)]
    return [of_debian(lab, name) for name in names]


def sound(lab: Lab, spec: plan.Spec) -> bool:
    """Whether a kernel is not wrong on purpose.

    The kernel ``unsafe``, and policies that only the lab kernel has, are checked when they are named.
    """
    return spec.image != plan.UNSAFE and not any(value in lab.base.features[name].lab for name, value in spec.settings)


def walk_of(name: str) -> float:
    """What a page walk costs by a timing model, ns. Raises UsageError when it does not say."""
    model = timing.load_model(name)
    if not model.costs.walk:
        raise UsageError(f"{name} says nothing of page walks", remedy="give 'walk' in its [costs]")
    return model.costs.walk


def run(lab: Lab, arguments: argparse.Namespace) -> int:
    """Plan, boot, judge. Returns 1 when something was reported, missed or not seen."""
    of_mutants = arguments.mutants or bool(arguments.mutant)
    if of_mutants and arguments.checker == "off":
        raise UsageError("--checker off does not go with mutants, which the checker is to catch", remedy="leave it out")
    if arguments.timing is not None and (of_mutants or arguments.checker == "off"):
        raise UsageError("--timing needs the checker and a kernel without a mutant", remedy="leave it out")
    if arguments.machines and arguments.cpu:
        raise UsageError("--machines is every machine, --cpu some", remedy="leave one out")
    if arguments.mutants and arguments.mutant:
        raise UsageError("--mutants is every mutant, --mutant some", remedy="leave one out")
    if sum(map(bool, (arguments.image, arguments.debian, arguments.kernel, of_mutants))) > 1:
        raise UsageError("IMAGE, --debian, --kernel and mutants are different kernels", remedy="choose one of them")
    if arguments.bisect and of_mutants:
        raise UsageError("--bisect is for kernels without a mutant", remedy="leave it out")
    if arguments.symbols and not arguments.image:
        raise UsageError("--symbols is for an IMAGE, and none is named", remedy="name the IMAGE that they belong to")
    chosen = CheckOptions(
        arguments.vcpus,
        arguments.memory,
        arguments.append,
        arguments.speculation == "on",
        arguments.checker == "on",
        0.0 if arguments.timing is None else walk_of(arguments.timing),
    )
    trials = mutants(lab, arguments) if of_mutants else kernel_trials(lab, arguments, users_names(lab, arguments))
    for trial in trials:
        trial.machine(chosen)  # refuses what cannot be
    known_issues = data.load_known_issues() + (data.load_known_issues(arguments.known) if arguments.known else [])
    require_known("known issue", arguments.fixed, [issue.name for issue in known_issues])
    known_issues = [issue for issue in known_issues if issue.name not in arguments.fixed]
    if arguments.dry_run:
        whats = [(trial.boot.name, trial.what(chosen)) for trial in trials]
        lines = [f"would boot {what}" for _, what in whats]
        return print_result(lines, [{"boot": name, "what": what} for name, what in whats], as_json=arguments.json)
    given = users_kernels(lab, arguments)
    if given:
        trials = kernel_trials(lab, arguments, [kernel.name for kernel in given])
    return do_check(
        lab,
        trials,
        given,
        chosen,
        known_issues,
        arguments.out,
        as_json=arguments.json,
        files={ci.ktap: arguments.ktap, ci.junit: arguments.junit},
        bisect=arguments.bisect,
    )
