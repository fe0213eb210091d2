# SPDX-License-Identifier: GPL-2.0-only
"""`lull selftest`: run Linux's own tests of memory management on stock and Lull, and compare each test's result.

tools/testing/selftests/mm is built from the kernel's source and run by its own run_vmtests.sh under Debian's bash.
KUnit suites run while the kernel boots. The baseline names the tests that fail, are skipped or vary on stock, with the
reason. A test with another result on Lull than on stock is a failure.
"""

from __future__ import annotations

import itertools
import json
import shutil
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from functools import partial
from pathlib import Path

from lull import cache, guest, paths, plan, process, toml
from lull.check import data as check_data
from lull.check import plugin_output
from lull.check.kernels import CheckedKernel
from lull.errors import BuildError, GuestGarbage, GuestHang, GuestPanic
from lull.guest.qemu import Machine
from lull.guest.runner import Guest, Plugin, launch_retrying
from lull.lab import Lab
from lull.linux.toolchain import Toolchain, jobs
from lull.linux.tree import Tree
from lull.progress import progress, say
from lull.run import loop
from lull.run.loop import Step, Tell, holding
from lull.run.records import Kept
from lull.selftests import suite_outcomes
from lull.selftests.suite_outcomes import BEGIN, END, MESSAGES, VARIES, Baseline, SuiteOutcome

SUITES = paths.GUEST / "selftests.toml"
SOURCES = "tools/testing/selftests/mm"
SHARED = {
    "vm_util": "*",
    "thp_settings": "*",
    "hugepage_settings": "*",
    "uffd-common": "uffd-*",
    "pkey_util": "protection_keys",
}
"""Source -> the pattern of the programs that it is linked into, as the folder's Makefile does. Linux 6.12 has
thp_settings in place of hugepage_settings and of pkey_util."""
OTHERS = {"soft-dirty", "pkey_sighandler_tests"}
"""Programs that are not built, because the Makefile of Linux 6.12 does not build them for arm64."""
CONFIGS = ("local_config.h", "local_config.h_gen")
"""The header that says which libraries there are: its name in Linux 6.12, and in 7.3."""
LIBRARIES = ("liburing-dev", "libnuma-dev", "libcap-dev")
"""Debian's arm64 packages with the libraries that some programs are linked with."""
FOLDER = "lull/selftests"
"""The folder of the programs in the guest."""
SCRIPT = "run_vmtests.sh"
LIMIT = ('("$@" 2>&1)', '(timeout --signal=KILL "$TEST_SECONDS" "$@" 2>&1)')
"""A change of SCRIPT, as text and replacement: a time limit for each test, so that the others run when one hangs."""
MORE = ('echo "SUMMARY: ', '. /lull/real/more_vmtests.sh\necho "SUMMARY: ')
"""A change of SCRIPT, as text and replacement: before its summary it also runs the tests that it leaves out."""
POOL = "echo 128 >/proc/sys/vm/nr_hugepages"
"""Allocates the 128 pages of 2 MiB that SCRIPT asks for before SCRIPT starts. Halfway through, SCRIPT sets the pool
back to what it was at its start."""
MACHINE = Machine(memory_mib=4096, nodes=2)
"""Some tests migrate pages between NUMA nodes."""
APPEND = "log_buf_len=4M proc_mem.force_override=always"
"""Kernel parameters of all suites. mkdirty writes to read-only memory through /proc/self/mem, which Linux 7.3 allows
only to debuggers by default."""
LIMIT_FACTOR = 4.0
"""Factor on the time limits of a guest, because KUnit runs while it boots."""
HVO = "echo 1 >/proc/sys/vm/hugetlb_optimize_vmemmap || finish"
"""A line of the job script: switch HVO on. If that fails, the guest ends."""
HVO_APPEND = "hugetlb_free_vmemmap=on"
"""The kernel parameter without which HVO has no effect: its KUnit suite needs a vmemmap that is mapped by pages."""


@dataclass(frozen=True)
class SelftestSuite:
    """Tests that run in a boot of their own.

    Args:
        name: its name in tables.
        options: the options of run_vmtests.sh; empty: the suite is KUnit.
        before: shell lines to run before the tests.
        hvo: on Lull, also run it with HVO.
        seconds: the time limit of one test, in seconds.
        timeout: the time limit of the whole suite, in seconds.
    """

    name: str
    options: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    hvo: bool = False
    seconds: int = 900
    timeout: float = 3600.0

    @property
    def append(self) -> str:
        """The kernel parameters of its boots."""
        return APPEND if self.options else f"{APPEND} kunit.enable=1"


@dataclass(frozen=True)
class Setting:
    """A kernel, with the policies that suites run under.

    Args:
        name: its name in tables.
        kernel: the kernel of the base.
        lines: shell lines at the beginning of the job, which set the policies.
        append: further kernel parameters.
    """

    name: str
    kernel: str
    lines: tuple[str, ...] = ()
    append: str = ""


def load_suites(path: Path = SUITES) -> dict[str, SelftestSuite]:
    """The suites of a TOML file, in its order. Raises UsageError when it is not well formed."""
    remedy = "correct the file: the comment at its beginning explains the form"
    with toml.reading("a file of selftests", path, remedy):
        return {name: toml.made(SelftestSuite, entry, name=name) for name, entry in toml.load_toml(path).items()}


def headers(tree: Tree, toolchain: Toolchain) -> Path:
    """The folder of the kernel's headers for user space, which ``make headers`` wrote. Raises BuildError."""

    def make(part: Path) -> None:
        words = ["make", "-C", str(tree.path), f"O={part}", *toolchain.make_variables(), "headers"]
        with progress.step("the kernel's headers for user space"):
            process.run_logged(words, part.parent / f"{part.name}.log", error=BuildError)
        for other in part.iterdir():
            if other.name != "usr":
                shutil.rmtree(other) if other.is_dir() and not other.is_symlink() else other.unlink()

    return cache.make_entry("guest", f"headers-{tree.key}", make) / "usr/include"


def script(text: str) -> str:
    """The text of run_vmtests.sh with the changes LIMIT and MORE. Raises BuildError when a change does not fit it."""
    for old, new in (LIMIT, MORE):
        if text.count(old) != 1:
            raise BuildError(
                f"{SCRIPT} of this kernel does not fit: it does not have {old!r} exactly once",
                remedy="use a kernel tree nearer to the base",
            )
        text = text.replace(old, new)
    return text


def build(tree: Tree, toolchain: Toolchain, libraries: Path) -> Path:
    """A folder with all of the kernel's tests, programs compiled for arm64.

    Args:
        libraries: the folder with the unpacked packages LIBRARIES.

    Raises: BuildError for a program that does not compile.
    """
    folder = tree.path / SOURCES
    include = headers(tree, toolchain)
    sources = {p.stem for p in folder.glob("*.c")}
    programs = sorted(sources - {*SHARED} - OTHERS)
    # -w: the programs are Linux's, so that nobody here acts on their warnings. KSFT_SKIP: khugepaged.c of 6.12.117 does
    # not include the header that defines it. -fmacro-prefix-map: some programs create files named after __FILE__, which
    # must then be in the folder they run in.
    plain = f"-fmacro-prefix-map={folder}/="
    flags = ["-O2", "-static", plain, "-U_FORTIFY_SOURCE", "-D_GNU_SOURCE=", "-DKSFT_SKIP=4", "-w"]
    links = ["-lrt", "-lpthread", "-lm", "-luring", "-lnuma", "-lcap"]
    key = cache.key_of(
        tree.key, toolchain.version, libraries.name, *LIMIT, *MORE, *programs, str(SHARED), *flags, *links
    )

    def make(part: Path) -> None:
        log = part.parent / f"{part.name}.log"
        log.unlink(missing_ok=True)
        config = part / "config"
        config.mkdir()
        for name in CONFIGS:
            (config / name).write_text("#define LOCAL_CONFIG_HAVE_LIBURING 1\n")  # as check_config.sh does
        system = (include, tree.path / "tools/include/uapi", libraries / "usr/include")
        own = (config, tree.path, folder.parent)
        folders = [*(f"-I{place}" for place in own), *(f"-isystem{place}" for place in system)]

        def compile_one(program: str) -> None:
            shared = [name for name, users in SHARED.items() if name in sources and fnmatch(program, users)]
            files = [folder / f"{name}.c" for name in (program, *shared)]
            where = f"-L{libraries}/usr/lib/aarch64-linux-gnu"
            process.run_logged(
                [toolchain.gcc, *flags, *folders, "-o", part / program, *files, where, *links],
                log,
                error=BuildError,
                what=f"selftest {program}.c does not compile",
            )

        with progress.step("building Linux's selftests"), ThreadPoolExecutor(jobs()) as pool:
            list(pool.map(compile_one, programs))
        shutil.rmtree(config)
        for source in folder.glob("*.sh"):
            (part / source.name).write_text(source.read_text())
        (part / SCRIPT).write_text(script((folder / SCRIPT).read_text()))

    return cache.make_entry("guest", f"selftests-{key}", make)


def initramfs(lab: Lab, programs: Path) -> Path:
    """The guest's initramfs, with the tests added."""
    key = cache.key_of(lab.initramfs.parent.name, programs.name)

    def make(part: Path) -> None:
        names = sorted(p.name for p in programs.iterdir())
        shutil.copytree(programs, part / "programs")
        listing = [f"dir /{FOLDER} 0755 0 0", *(f"file /{FOLDER}/{n} programs/{n} 0755 0 0" for n in names)]
        guest.write_cpio(lab.generator, "\n".join(listing) + "\n", part / "selftests.cpio")
        guest.join_cpio([lab.initramfs, part / "selftests.cpio"], part / "initramfs.cpio")
        shutil.rmtree(part / "programs")

    return cache.make_entry("guest", f"initramfs-{key}", make) / "initramfs.cpio"


def job(setting: Setting, suite: SelftestSuite) -> str:
    """The job script that runs a suite under a setting.

    It prints marks around the output of the tests and around the kernel's log (suite_outcomes.BEGIN, MESSAGES, END).
    """
    tests = "/var/tmp/mm"  # on the disk, because some tests need files of a disk's file system
    words = f"cd {tests} && TEST_SECONDS={suite.seconds} ./{SCRIPT} {process.shown(suite.options)}"
    lines = [
        *setting.lines,
        POOL,
        *suite.before,
        "mount -t debugfs debugfs /debian/sys/kernel/debug",
        f"cp -r /{FOLDER} /debian{tests}",
        "dmesg -c >/dev/null",
        f"echo '{BEGIN}'",
        f"run 1 debian bash -c {process.shown([words])} 2>&1",
        f"echo '{MESSAGES}'",
        "dmesg",
        f"echo '{END}'",
    ]
    return "\n".join(lines if suite.options else setting.lines) + "\n"


def boot_of(suite: SelftestSuite, setting: Setting, number: int) -> plan.Boot:
    """The boot ``number`` of a suite under a setting, for the loop: its only job is the suite."""
    tests = plan.Job(1, plan.Workload(suite.name, SCRIPT), plan.Spec(setting.name, setting.kernel))
    name = f"{suite.name}-{number}-{setting.name.replace(', ', '-')}"
    return plan.Boot(name, number, setting.kernel, setting.name, (tests,))


@dataclass(kw_only=True)
class SuiteBoot(Kept):
    """How a guest ended that ran a suite: in which trouble, if any, and the output of uname -r in it."""

    trouble: str = ""
    guest: str = ""


def one_boot(guest_: Guest, suite: SelftestSuite, setting: Setting, folder: Path, tell: Tell) -> SuiteBoot:
    """Boot a guest that runs a suite under a setting, with the logs in ``folder``; returns how the guest ended."""
    # For selftests, keep the kernel's messages off the console, which has the output of the tests; they are read from
    # dmesg. KUnit prints its results as kernel messages.
    level = "loglevel=1" if suite.options else "loglevel=7"
    arguments = guest_.arguments.replace("quiet loglevel=4", level)
    limit_factor = LIMIT_FACTOR * guest_.limit_factor
    append = f"{suite.append} {setting.append}".strip()
    guest_ = replace(guest_, arguments=arguments, append=append, limit_factor=limit_factor)
    limit = suite.timeout / LIMIT_FACTOR
    try:
        ended = launch_retrying(
            guest_, job(setting, suite), folder, job_seconds=lambda number: limit, tell=tell, say=say
        )
    except (GuestHang, GuestPanic, GuestGarbage) as error:
        return SuiteBoot(trouble=error.what)
    return SuiteBoot(guest=ended.kernel)


def settings_for(suite: SelftestSuite, specs: Sequence[plan.Spec], lab: Lab) -> list[Setting]:
    """The settings that a suite runs under: each kernel, and once more with HVO if the suite asks for it."""
    found = []
    for spec in specs:
        lines = tuple(f"setting {feature} {value}" for feature, value in spec.settings)
        found.append(Setting(spec.name, spec.image, lines))
        if suite.hvo and any(HVO_APPEND in f.parameter for f in lab.base.features_of(spec.image)):
            found.append(Setting(f"{spec.name}, HVO", spec.image, (*lines, HVO), HVO_APPEND))
    return found


def checked_guest(lab: Lab, kernel: CheckedKernel, userland: Path) -> Guest:
    """A guest that runs a kernel under the checker, which sees the RAM of one NUMA node.

    Args:
        userland: the initramfs with the tests.
    """
    plugin = Plugin(lab.plugin, "check", (f"symbols={kernel.place}",))
    found = lab.guest_of(kernel.image, replace(MACHINE, nodes=1), "", plugin)
    archive = guest.with_modules(userland, kernel.modules, lab.generator) if kernel.modules else userland
    return replace(found, initramfs=archive, limit_factor=kernel.limit_factor)


def with_checker(
    outcome: SuiteOutcome, place: Path, known_issues: Sequence[check_data.KnownIssue], release: str
) -> SuiteOutcome:
    """``outcome`` with what the checker wrote to the folder of the boot, if it did: its reports are the kernel's.

    Reports of known issues are only told. A boot in which the checker saw too little is in trouble.

    Args:
        release: the output of uname -r in the guest.
    """
    output = plugin_output.read_reports(sorted(place.glob("reports*.jsonl")))
    known = [[issue.name for issue in known_issues if issue.describes(r, release)] for r in output.reports]
    if told := sorted(set(itertools.chain(*known))):
        say(f"known issues of the checker in {place.name}: {', '.join(told)}")
    new = [report for report, names in zip(output.reports, known, strict=True) if not names]
    trouble = "; ".join(filter(None, [*output.errors, plugin_output.unseen(output.end)]))
    lines = ["\n".join(plugin_output.lines(report)) for report in new]
    return replace(outcome, reports=[*outcome.reports, *lines], trouble=outcome.trouble or trouble)


def do_suites(
    lab: Lab,
    suites: Sequence[SelftestSuite],
    specs: Sequence[plan.Spec],
    repeat: int,
    out: Path | None,
    *,
    checked: Sequence[CheckedKernel] = (),
    as_json: bool = False,
) -> int:
    """Run the suites on the kernels, and print and write the results.

    Returns the exit status: 0 when nothing differs, else 1.

    Args:
        specs: the kernels; the others are compared with the first.
        repeat: boots of each suite under each setting.
        out: the folder of the results; None: a new one in ./results.
        checked: kernels to run under the checker, instead of ``specs``. Their tests are not compared with any.
        as_json: print selftests.json instead of the table.
    """
    baseline = suite_outcomes.load_baseline()
    known = check_data.load_known_issues()
    if checked:
        baseline = Baseline(varies={"*": "this kernel has another configuration"}, reports=baseline.reports)
    userland = initramfs(lab, build(lab.pristine, lab.toolchain, lab.store.libraries(LIBRARIES)))
    images = dict.fromkeys(spec.image for spec in specs)
    guests = {i: replace(lab.guest(i, MACHINE, count=False), initramfs=userland) for i in images}
    guests |= {kernel.name: checked_guest(lab, kernel, userland) for kernel in checked}
    own = [Setting(kernel.name, kernel.name) for kernel in checked]
    boots = [(s, t, n) for s in suites for n in range(1, repeat + 1) for t in [*settings_for(s, specs, lab), *own]]
    made = (f"{g.image} {g.initramfs} {g.disk} {g.parameters()} {g.plugin}" for g in guests.values())
    jobs_ = (f"{job(setting, suite)} {suite.append} {setting.append}" for suite, setting, _ in boots)
    found: dict[tuple[str, str], list[SuiteOutcome]] = defaultdict(list)
    with holding(out, cache.key_of(repr(boots), repr(MACHINE), lab.qemu.version, *made, *jobs_)) as folder:

        def note(suite: SelftestSuite, setting: Setting, kept: SuiteBoot, place: Path) -> None:
            read = suite_outcomes.of_tests if suite.options else suite_outcomes.of_kunit
            outcome = read((place / "console.log").read_text(errors="replace"), kept.trouble)
            if checked:
                outcome = with_checker(outcome, place, known, kept.guest)
            found[setting.name, suite.name].append(outcome)

        steps = [
            Step(boot_of(s, t, n), SuiteBoot, partial(one_boot, guests[t.kernel], s, t), partial(note, s, t))
            for s, t, n in boots
        ]
        loop.do_boots(steps, folder, f"Linux's selftests: {len(boots)} guest{'s' * (len(boots) > 1)}")
        judged = suite_outcomes.findings_of(found, baseline)
        if checked:
            judged[VARIES] = []  # the table of selftests.md has them
        described = json.dumps({"outcomes": suite_outcomes.described(found), "findings": judged}, indent=1)
        cache.write_atomic(folder / "selftests.json", described + "\n")
        cache.write_atomic(folder / "selftests.md", suite_outcomes.markdown(found, judged))
    if as_json:
        print(described)
    else:
        suite_outcomes.print_outcomes(found, judged)
    say(f"consoles, and every test: {folder}")
    return 1 if any(judged[kind] for kind in suite_outcomes.FAILING) else 0
