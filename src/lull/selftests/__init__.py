# SPDX-License-Identifier: GPL-2.0-only
"""Linux's own tests of its memory management, on stock and on Lull, test by test.

tools/testing/selftests/mm is built from the kernel's source, and run by its own run_vmtests.sh under Debian's bash;
KUnit's suites run as the kernel boots. What fails, is skipped or varies on stock is named in the baseline, with the
reason; what ends otherwise on Lull differs, and that is a failure.
"""

from __future__ import annotations

import json
import shutil
import tomllib
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lull import cache, guest, paths, plan, process
from lull.errors import BuildError, GuestGarbage, GuestHang, GuestPanic, UsageError
from lull.guest.qemu import Machine
from lull.guest.runner import Guest, launch_retrying
from lull.kernel.toolchain import Toolchain, jobs
from lull.kernel.tree import Tree, waiting
from lull.lab import Lab
from lull.progress import progress, say
from lull.run import experiment
from lull.selftests import report as report
from lull.selftests.report import BEGIN, END, MESSAGES, Outcome

SUITES = paths.GUEST / "selftests.toml"
SOURCES = "tools/testing/selftests/mm"
SHARED = ("vm_util.c", "thp_settings.c")
"""Files that are in each program, as the folder's Makefile has it."""
UFFD = "uffd-common.c"
"""And this in each whose name begins so."""
OTHERS = {"soft-dirty", "pkey_sighandler_tests"}
"""Programs that the Makefile does not build for arm64."""
LIBRARIES = ("liburing-dev", "libnuma-dev", "libcap-dev")
"""What some programs are linked with, of Debian's arm64."""
FOLDER = "lull/selftests"
"""Where the programs are in the guest."""
SCRIPT = "run_vmtests.sh"
LIMIT = ('("$@" 2>&1)', '(timeout --signal=KILL "$TEST_SECONDS" "$@" 2>&1)')
"""A test that hangs is to cost itself only. What runs a test in SCRIPT, and what does so then."""
MORE = ('echo "SUMMARY: ', '. /lull/real/more_vmtests.sh\necho "SUMMARY: ')
"""SCRIPT's end, and the tests that it leaves out before that."""
POOL = "echo 128 >/proc/sys/vm/nr_hugepages"
"""Pages of 2 MiB that SCRIPT asks for, 256 MiB: in its middle it goes back to what was there before."""
MACHINE = Machine(memory_mib=4096, nodes=2)
"""Some tests migrate pages between NUMA nodes."""
APPEND = "log_buf_len=4M"
SLOWER = 4.0
"""How much longer than others a guest may take to boot: KUnit runs meanwhile."""
HVO = "echo 1 >/proc/sys/vm/hugetlb_optimize_vmemmap || finish"


@dataclass(frozen=True)
class Suite:
    """Tests that run in a boot of their own.

    Args:
        name: what it is called in tables.
        options: of run_vmtests.sh; none: KUnit's suites.
        before: shell lines.
        hvo: run on Lull with struct pages given back, too.
        seconds: what a test may take.
        timeout: what all may take together.
    """

    name: str
    options: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    hvo: bool = False
    seconds: int = 900
    timeout: float = 3600.0

    @property
    def append(self) -> str:
        """Kernel parameters."""
        return APPEND if self.options else f"{APPEND} kunit.enable=1"


@dataclass(frozen=True)
class Setting:
    """What suites run under.

    Args:
        name: what it is called in tables.
        kernel: a kernel of the base.
        lines: shell lines at its beginning.
    """

    name: str
    kernel: str
    lines: tuple[str, ...] = ()


def load(path: Path = SUITES) -> dict[str, Suite]:
    """The suites of a TOML file, in its order. Raises UsageError when it is not well formed."""
    try:
        raw: dict[str, dict[str, Any]] = tomllib.loads(path.read_text())
        return {
            name: Suite(
                name=name,
                options=tuple(str(o) for o in entry.get("options", ())),
                before=tuple(str(line) for line in entry.get("before", ())),
                hvo=bool(entry.get("hvo", False)),
                seconds=int(entry.get("seconds", 900)),
                timeout=float(entry.get("timeout", 3600)),
            )
            for name, entry in raw.items()
        }
    except (OSError, tomllib.TOMLDecodeError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"not a file of selftests: {error}", where=str(path)) from error


def headers(tree: Tree, toolchain: Toolchain) -> Path:
    """The kernel's headers for user space."""

    def make(part: Path) -> None:
        words = ["make", "-C", str(tree.path), f"O={part}", *toolchain.make_variables(), "headers"]
        with progress.step("the kernel's headers for user space"):
            process.run_logged(words, part.parent / f"{part.name}.log", error=BuildError)
        for other in part.iterdir():
            if other.name != "usr":
                shutil.rmtree(other) if other.is_dir() and not other.is_symlink() else other.unlink()

    return cache.make_entry("guest", f"headers-{tree.key}", make, waiting=waiting) / "usr/include"


def script(text: str) -> str:
    """run_vmtests.sh with a limit for each test, and with the tests that it leaves out. Raises BuildError."""
    for old, new in (LIMIT, MORE):
        if text.count(old) != 1:
            raise BuildError(f"{SCRIPT} of this kernel is another one: {old!r} is not there once")
        text = text.replace(old, new)
    return text


def build(tree: Tree, toolchain: Toolchain, libraries: Path) -> Path:
    """The folder with every test of the kernel's, programs compiled for arm64. Raises BuildError naming the file."""
    folder = tree.path / SOURCES
    include = headers(tree, toolchain)
    programs = sorted({p.stem for p in folder.glob("*.c")} - {Path(p).stem for p in (*SHARED, UFFD)} - OTHERS)
    # Not our programs: their warnings are no news. khugepaged.c of 6.12.117 lacks the header that has KSFT_SKIP.
    # Some make files that are named after their source: in the folder they run in.
    plain = f"-fmacro-prefix-map={folder}/="
    flags = ["-O2", "-static", plain, "-U_FORTIFY_SOURCE", "-D_GNU_SOURCE=", "-DKSFT_SKIP=4", "-w"]
    links = ["-lrt", "-lpthread", "-lm", "-luring", "-lnuma", "-lcap"]
    key = cache.key_of(
        tree.key, toolchain.version, libraries.name, *LIMIT, *MORE, *programs, *SHARED, UFFD, *flags, *links
    )

    def make(part: Path) -> None:
        log = part.parent / f"{part.name}.log"
        log.unlink(missing_ok=True)
        config = part / "config"
        config.mkdir()
        (config / "local_config.h").write_text("#define LOCAL_CONFIG_HAVE_LIBURING 1\n")  # as check_config.sh does
        system = (include, tree.path / "tools/include/uapi", libraries / "usr/include")
        folders = [f"-I{config}", f"-I{tree.path}", *(f"-isystem{place}" for place in system)]

        def compile_one(program: str) -> None:
            shared = [*SHARED, *([UFFD] if program.startswith("uffd-") else [])]
            files = [folder / f"{program}.c", *(folder / name for name in shared)]
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

    return cache.make_entry("guest", f"selftests-{key}", make, waiting=waiting)


def initramfs(lab: Lab, programs: Path) -> Path:
    """The guest's userland, with the tests."""
    key = cache.key_of(lab.initramfs.parent.name, programs.name)

    def make(part: Path) -> None:
        names = sorted(p.name for p in programs.iterdir())
        shutil.copytree(programs, part / "programs")
        listing = [f"dir /{FOLDER} 0755 0 0", *(f"file /{FOLDER}/{n} programs/{n} 0755 0 0" for n in names)]
        guest.write_cpio(lab.generator, "\n".join(listing) + "\n", part / "selftests.cpio")
        guest.join_cpio([lab.initramfs, part / "selftests.cpio"], part / "initramfs.cpio")
        shutil.rmtree(part / "programs")

    return cache.make_entry("guest", f"initramfs-{key}", make, waiting=waiting) / "initramfs.cpio"


def job(setting: Setting, suite: Suite) -> str:
    """The /lull/job that runs a suite under a setting. Between marks stand what tests say, and what the kernel says."""
    tests = "/var/tmp/mm"  # on the disk: files of its file system are tested, too
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


def one_boot(booted: Guest, suite: Suite, setting: Setting, folder: Path) -> Outcome:
    """One suite under one setting, run now or read from what an interrupted run left."""
    log, done = folder / "console.log", folder / experiment.DONE
    if not done.exists():
        trouble = ""
        try:
            launch_retrying(
                booted,
                job(setting, suite),
                folder,
                job_seconds=lambda number: suite.timeout / SLOWER,
                tell=lambda text: None,
                say=say,
            )
        except (GuestHang, GuestPanic, GuestGarbage) as error:
            trouble = error.what
        cache.write_atomic(done, json.dumps({"trouble": trouble}) + "\n")
    trouble = json.loads(done.read_text())["trouble"]
    return (report.of_tests if suite.options else report.of_kunit)(log.read_text(errors="replace"), trouble)


def settings_for(suite: Suite, specs: Sequence[plan.Spec], lab: Lab) -> list[Setting]:
    """What a suite runs under: the kernels named, and those that can give struct pages back when they do."""
    found = []
    for spec in specs:
        lines = tuple(f"setting {feature} {value}" for feature, value in spec.settings)
        found.append(Setting(spec.name, spec.image, lines))
        if suite.hvo and "vmemmap" in {f.name for f in lab.base.features_of(spec.image)}:
            found.append(Setting(f"{spec.name}, HVO", spec.image, (*lines, HVO)))
    return found


def conduct(
    lab: Lab,
    suites: Sequence[Suite],
    specs: Sequence[plan.Spec],
    repeat: int,
    out: Path | None,
    *,
    as_json: bool = False,
) -> int:
    """Run the suites on the kernels, the first of which is the baseline. Returns 0 when nothing differs, else 1."""
    baseline = report.load_baseline()
    userland = initramfs(lab, build(lab.pristine, lab.toolchain, lab.store.libraries(LIBRARIES)))
    images = dict.fromkeys(spec.image for spec in specs)
    guests = {i: replace(lab.guest(i, MACHINE, count=False), initramfs=userland) for i in images}
    boots = [(s, t, n) for s in suites for n in range(1, repeat + 1) for t in settings_for(s, specs, lab)]
    made = (f"{g.image} {g.initramfs} {g.disk} {g.parameters()}" for g in guests.values())
    jobs_ = (f"{job(setting, suite)} {suite.append}" for suite, setting, _ in boots)
    found: dict[tuple[str, str], list[Outcome]] = defaultdict(list)
    with experiment.holding(out, cache.key_of(repr(boots), repr(MACHINE), lab.qemu.version, *made, *jobs_)) as folder:
        with progress.step(f"Linux's selftests: {len(boots)} guest{'s' * (len(boots) > 1)}") as step:
            for number, (suite, setting, turn) in enumerate(boots, 1):
                step.update(f"{number}/{len(boots)} {suite.name} on {setting.name}")
                # The console is the tests'; what the kernel has to say is read from its log. KUnit's verdicts are its.
                level = "loglevel=1" if suite.options else "loglevel=7"
                arguments = guests[setting.kernel].arguments.replace("quiet loglevel=4", level)
                slower = SLOWER * guests[setting.kernel].slower
                booted = replace(guests[setting.kernel], arguments=arguments, append=suite.append, slower=slower)
                place = folder / "boots" / f"{suite.name}-{turn}-{setting.name.replace(', ', '-')}"
                found[setting.name, suite.name].append(one_boot(booted, suite, setting, place))
        judged = report.judge(found, baseline)
        described = json.dumps({"outcomes": report.described(found), "findings": judged}, indent=1)
        cache.write_atomic(folder / "selftests.json", described + "\n")
        cache.write_atomic(folder / "selftests.md", report.markdown(found, judged))
    if as_json:
        print(described)
    else:
        report.show(found, judged)
    say(f"consoles, and every test: {folder}")
    return 1 if any(judged[kind] for kind in report.FAILING) else 0
