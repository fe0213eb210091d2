# SPDX-License-Identifier: GPL-2.0-only
"""The command line: help, mistakes, plans, and the launcher."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from images import image
from support import AGING, LOCAL, REPOSITORY, Tool, small_disk

from lull import base as bases
from lull.cli import (
    ADVANCED,
    COMMANDS,
    GROUPS,
    OPTIONAL_COMMANDS,
    build_parser,
    commands_of,
    interrupted,
    main,
    refused,
    unrecognized,
)
from lull.errors import EXIT_CODES
from lull.lab import Lab
from lull.options import SHARED


@dataclass
class Ended:
    """What a command line said, and its exit code."""

    returncode: int
    stdout: str
    stderr: str


Within = Callable[..., Ended]


@pytest.fixture
def within(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Within:
    """Run a command line in this process, in a folder of its own: of many, each a second less."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LULL_QEMU", "")

    def run(*words: str) -> Ended:
        number = main(words)
        return Ended(number, *capsys.readouterr())

    return run


def test_help_names_every_command_and_exit_code(tool: Tool) -> None:
    """What there is, is said."""
    done = tool("--help")
    assert done.returncode == 0
    for name in COMMANDS:
        assert name in done.stdout
    for code in EXIT_CODES:
        assert f"\n  {code:3} " in done.stdout


def test_help_describes_at_most_ten_commands(tool: Tool) -> None:
    """In groups, each with a line; the others are only named, and no command is left out or in two groups."""
    described = [name for names in GROUPS.values() for name in names]
    named = [*described, *ADVANCED, *OPTIONAL_COMMANDS]
    assert len(described) <= 10 and len(set(named)) == len(named) == len(COMMANDS)
    shown = tool("--help").stdout.partition("\ncommands:\n")[2].partition("\nexit codes:")[0]
    for heading, names in GROUPS.items():
        assert f"\n  {heading}\n" in f"\n{shown}"
        for name, about in names.items():
            assert re.search(rf"(?m)^    {name} +{re.escape(about)}$", shown)
    advanced, _, optional = shown.partition("  advanced ")[2].partition("  optional parts, in contrib/")
    for text, names in ((advanced, ADVANCED), (optional, OPTIONAL_COMMANDS)):
        assert " ".join(text.splitlines()[1:]).split() == ", ".join(names).split()


def test_no_option_is_near_to_every_word() -> None:
    """Two dashes alone make no option like another."""
    for parser in commands_of(build_parser(COMMANDS)).values():
        assert "did you mean" not in unrecognized(parser, ["--bogus"]).remedy


@pytest.mark.parametrize("command", COMMANDS)
def test_shared_options_are_taken_or_refused(within: Within, command: str) -> None:
    """A command shows those that it has a use for, and refuses the others before anything else."""
    parser = commands_of(build_parser([command]))[command]
    taken = {option for action in parser._actions for option in action.option_strings}
    assert taken & SHARED == SHARED - refused(command)
    for option in refused(command):
        for words in ([option], [f"{option}=x"], ["one", option, "two"]):
            done = within(command, *words)
            assert (done.returncode, done.stdout) == (2, "")
            assert f"'lull {command}' has no use for {option}\n  to do: leave it out" in done.stderr


def test_words_of_another_program_are_not_refused(tool: Tool) -> None:
    """What stands behind -- is pytest's."""
    assert "-- --quiet" not in tool("test", "--dry-run", "--", "--quiet").stderr
    assert tool("test", "--dry-run", "--", "--quiet").stdout.endswith(" --quiet\n")


def test_help_fits_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts too, which have lines of their own: they are broken, and say the same."""
    parser = build_parser(COMMANDS)
    for shown in (parser, *commands_of(parser).values()):
        texts = []
        for columns in (60, 200):
            monkeypatch.setenv("COLUMNS", str(columns))
            texts.append(shown.format_help())
            assert max(map(len, texts[-1].splitlines())) <= columns
        assert "".join(texts[0].split()) == "".join(texts[1].split())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["frob"], "unknown command 'frob'"),
        (["run", "--kernel", "luul"], "did you mean lull"),
        (["run", "--workload", "agin"], "did you mean aging"),
        (["run", "--kernel", f"lull+{AGING}=never"], "sync"),
        (["run", "--frob"], "'lull run' does not take --frob"),
        (["run", "--kernl", "stock"], "did you mean --kernel? 'lull run --help'"),
        (["--quiet", "run"], "options go after the command: lull run --quiet"),
        (["test", "-k", "x"], "options of pytest go behind --: lull test -- -k"),
        (["test", "--fats"], "did you mean --fast"),
        (["boot", "ls", "-l"], "options of program go behind --: lull boot -- -l"),
        (["completion"], "missing: bash|zsh|fish"),
        (["run", "--vcpus", "0"], "1 to"),
        (["run", "--vcpus", "many"], "'many' is no whole number"),
        (["soak", "--minutes", "some"], "'some' is no number"),
        (["run", "--memory", "much"], "'much' is no whole number"),
        (["run", "--memory", "3"], "--memory 3: 256 to"),
        (["check", "--memory", "99999999"], "MiB are possible on this host"),
        (["run", "--out", ""], "--out: an empty word names no path"),
        (["run", "--tree", ""], "--tree: an empty word names no path"),
        (["check", "--machines", "--cpu", "max"], "--machines is every machine"),
        (["check", "--mutants", "--mutant", "page-none"], "--mutants is every mutant"),
        (["check", "/etc/passwd"], "this is no arm64 kernel image"),
        (["run", "--repeat", "0"], "--repeat 0"),
        (["run", "--accel", "kvm"], "arm64 host"),
        (["run", "--accel", "kvm", "--functions"], "--functions needs --accel tcg"),
        (["build", "--kernel", "stok"], "did you mean stock"),
        (["boot", "--base", "9.9"], "unknown base"),
        (["build", "--suite", "reel"], "unknown suite 'reel'"),
        (["list", "--suite", "reel"], "known: real, vm, host"),
        (["soak", "--suite", "vm"], "has guests of the guest"),
        (["check", "--suite", "real", "--mutants"], "suite real has no mutants"),
        (["check", "--host", "--mutant", "page-none"], "page-none"),
        (["check", "--kernel", "luul"], "did you mean lull"),
        (["check", "--workload", "agin"], "did you mean aging"),
        (["check", "--cpu", "max+kptj"], "did you mean kpti"),
        (["check", "--repeat", "0"], "--repeat 0"),
        (["check", "--vcpus", "0"], "1 to"),
        (["check", "--vcpus", "65"], "--vcpus 65: 1 to 64 are possible under the checker"),
        (["check", "--vcpus", "129", "--checker", "off"], "1 to 128 are possible"),
        (["soak", "--vcpus", "65"], "--vcpus 65: 1 to 64 are possible under the checker"),
        (["soak", "--vcpus", "0"], "1 to"),
        (["search", "--vcpus", "65"], "--vcpus 65: 1 to 64 are possible under the checker"),
        (["search", "--minutes", "0"], "more than 0 are needed"),
        (["search", "--mutant", "none"], "none"),
        (["search", "--mutant", "mm-none", "--kernel", "lab"], "--kernel does not go with a mutant"),
        (["check", "--symbols", "map"], "--symbols is for an IMAGE"),
        (["check", "Image", "--mutants"], "choose one"),
        (["check", "Image", "--debian", "7.3-arm64"], "choose one"),
        (["check", "--mutants", "--machines"], "--machines does not go"),
        (["check", "/nonexistent", "--symbols", "map"], "cannot be read"),
        (["run", "--image", "/etc/passwd"], "belong together"),
        (["run", "--image", "/nonexistent", "--symbols", "map"], "the image cannot be read: No such file"),
        (["boot", "--image", "/nonexistent"], "the image cannot be read: No such file"),
        (["boot", "--image", "/etc/passwd", "--kernel", "stock"], "not allowed with"),
        (["kunit", "--image", "/nonexistent"], "the image cannot be read: No such file"),
        (["kunit", "--kernel", "kunit15k"], "did you mean kunit16k"),
        (["kunit", "lull*", "more"], "does not take more"),
        (["check", "--asid-bits", "7"], "invalid choice"),
        (["test", "--fast", "--all"], "not allowed with"),
        (["save", "/nonexistent"], "lull tree DIR"),
        (["tree"], "DIR"),
        (["port", "x"], "missing: --onto"),
        (["port", "--onto", "/nonexistent", "x"], "neither a folder nor a release of Linux"),
    ],
)
def test_mistakes_exit_2_and_say_what_there_is(within: Within, words: list[str], said: str) -> None:
    """A mistake on the command line costs a second and teaches something."""
    offline = not {command for command in words if command in COMMANDS and "--offline" in refused(command)}
    done = within(*words, *["--offline"] * offline)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr


BAD = Path("/proc/lull"), Path("/tmp") / ("x" * 300), Path("/dev/null/x")
"""Folders that nobody can make, root neither."""


TAKES_FOLDER = ("run", "check", "soak", "selftest", "timing", "deb")


def test_folders_that_cannot_be(within: Within, tmp_path: Path) -> None:
    """Said at once, by --dry-run too; nothing is left behind by looking."""
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "nothing").symlink_to("nowhere")
    (tmp_path / "file").write_text("mine")
    before = sorted(tmp_path.iterdir())
    cases = [("run", folder) for folder in (*BAD, Path("loop"), Path("nothing"), Path("file"))]
    for command, folder in [*cases, *((command, BAD[0]) for command in TAKES_FOLDER)]:
        done = within(command, "--dry-run", "--out", str(folder))
        assert done.returncode == 2 and "cannot write: " in done.stderr, (command, folder, done)
        assert str(folder) in done.stderr and "to do: " in done.stderr
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "--tree", "."], "not a kernel source tree"),
        (["build", "--tree", "."], "not a kernel source tree"),
        (["run", "--out", "."], "holds other files"),
        (["soak", "--out", "."], "holds other files"),
        (["tree", "."], "exists and is not empty"),
        (["deb", "--config", "nowhere"], "cannot be read: No such file"),
        (["deb", "--config", "file"], "the configuration is none of a kernel"),
        (["deb", "--checker", "--config", "file"], "are for packages of a kernel"),
        (["deb", "--checker", "--debug"], "are for packages of a kernel"),
        (["deb", "--checker", "--flavour", "cloud"], "are for packages of a kernel"),
        (["deb", "--config", "file", "--flavour", "cloud"], "both name a configuration"),
        (["check", "nowhere", "--symbols", "file"], "cannot be read: No such file"),
        (["check", "file"], "this is no arm64 kernel image"),
        (["report", "nowhere"], "holds no results"),
        (["test", "--base", "6.12", "--fast"], "--fast builds no kernel"),
        (["test", "--base", "7.9"], "unknown base '7.9'"),
        (["calibrate", "--out", "/proc/x.toml"], "cannot write"),
    ],
)
def test_a_dry_run_refuses_what_the_command_refuses(within: Within, words: list[str], said: str) -> None:
    """Before it says what would be done; what to do is said as well."""
    Path("file").write_text("mine")
    done = within(*words, "--dry-run")
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert said in done.stderr and "to do: " in done.stderr and "Errno" not in done.stderr


CPUS = """#!/bin/sh
case $1 in
--version) echo 'QEMU emulator version 10.0.2' ;;
-M) printf 'Available CPUs:\\n  max\\n  neon2\\n' ;;
esac
"""


@pytest.mark.parametrize(
    "words",
    [["run"], ["boot"], ["check"], ["soak"], ["calibrate", "--guest", "ampere-32"]],
    ids=lambda words: words[0],
)
def test_cpus_are_those_of_qemu(
    within: Within, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    """One that it has not is refused before anything is built; what stands behind a comma is QEMU's to judge."""
    for name, text in (("speaks", CPUS), ("mute", CPUS.replace("-M)", "-M) exit 1 ;; -X)"))):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("LULL_QEMU", str(tmp_path / "speaks"))
    done = within(*words, "--cpu", "neon3", "--dry-run")
    assert done.returncode == 2 and "unknown CPU 'neon3'" in done.stderr and "did you mean neon2?" in done.stderr
    assert within(*words, "--cpu", "neon2,x=on", "--dry-run").returncode == 0
    monkeypatch.setenv("LULL_QEMU", str(tmp_path / "mute"))
    assert within(*words, "--cpu", "neon3", "--dry-run").returncode == 0, "it does not say which it has"


def test_options_need_python_alone() -> None:
    """Those of every command: -S and -I leave only the standard library."""
    code = "import sys; sys.path.append(sys.argv[1]); from lull import cli; cli.build_parser(cli.COMMANDS)"
    subprocess.run([sys.executable, "-S", "-I", "-c", code, REPOSITORY / "src"], check=True)


@pytest.mark.parametrize("ignored", [signal.SIGHUP, signal.SIGTERM])
def test_signals_that_we_were_told_to_ignore(
    ignored: signal.Signals, heard: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """nohup is heard: the handler is for those that would end us."""
    other = signal.SIGTERM if ignored == signal.SIGHUP else signal.SIGHUP
    before = {number: signal.getsignal(number) for number in (ignored, other)}
    try:
        signal.signal(ignored, signal.SIG_IGN)
        assert main(["completion", "bash"]) == 0
        assert signal.getsignal(ignored) is signal.SIG_IGN and signal.getsignal(other) is interrupted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_what_can_be_named_is_listed(tool: Tool) -> None:
    """Each with a line; with --suite that suite's workloads."""
    done = tool("list")
    for name in ("stock", LOCAL, "swap_bench", "cortex-a72", "page-no-dsb", "ampere-32", "hugetlb"):
        assert re.search(rf"(?m)^  {name} +\S", done.stdout), name
    found = json.loads(tool("list", "--json", "--suite", "real").stdout)
    assert "compile" in found["workloads"] and "swap_bench" not in found["workloads"]
    assert all(about for names in found.values() for about in names.values())


def test_dry_run_shows_the_plan_and_does_nothing(tool: Tool) -> None:
    """The plan as JSON, and an empty cache."""
    done = tool("run", "--dry-run", "--json", "--repeat", "2", "--workload", "young")
    assert done.returncode == 0, done.stderr
    boots = json.loads(done.stdout)
    assert len(boots) == 8
    assert {j for b in boots for j in b["jobs"]} >= {f"lull+{AGING}=none young", "stock young"}
    assert not any(tool.cache.iterdir())


@pytest.mark.parametrize(
    "command",
    [
        ["fetch"],
        ["fetch", "--suite", "real"],
        ["build"],
        ["build", "--kept"],
        ["boot"],
        ["boot", "--image", "/etc/passwd"],
        ["kunit"],
        ["kunit", "--image", "/etc/passwd"],
        ["check"],
        ["test"],
        ["upstream"],
        ["tree", "x"],
        ["deb"],
        ["deb", "--checker"],
        ["selftest"],
        ["search"],
        ["soak"],
        ["timing"],
    ],
)
def test_dry_run_everywhere(within: Within, own_cache: Path, command: list[str]) -> None:
    """Says 'would', or the same as JSON, as a result; leaves the cache empty."""
    done = within(*command, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "would" in done.stdout and "Machine(" not in done.stdout and not done.stderr
    if "--json" not in refused(command[0]):
        assert json.loads(within(*command, "--dry-run", "--json").stdout)
    assert not any(own_cache.iterdir())


def test_rivals_run_in_a_full_run_only(tool: Tool) -> None:
    """Nobody who names a workload waits for the kernel of another design."""
    (alternative,) = bases.load_base().alternatives
    for words, there in ((["--full"], True), (["--workload", "young"], False), ([], False)):
        done = tool("run", *words, "--dry-run", "--json")
        assert (alternative in done.stdout) == there and done.returncode == 0


def test_tests_of_a_base(tool: Tool) -> None:
    """With --base: only what is marked so; the default base is as without."""
    assert tool("test", "--base", "6.12", "--dry-run").stdout.endswith("-m 'bases and not whole'\n")
    assert tool("test", "--base", "6.12", "--all", "--dry-run").stdout.endswith("-m bases\n")
    assert tool("test", "--base", "7.3", "--dry-run").stdout.endswith("-m 'not whole'\n")


def test_dry_run_of_a_run_for_people(tool: Tool) -> None:
    """What is fetched and built, the boots of each kernel, what each runs, once, and where results go."""
    done = tool("run", "--dry-run", "--repeat", "2", "--workload", "young", "--out", "x", LULL_QEMU="")
    assert done.returncode == 0, done.stderr
    shown = {name: text for name, _, text in (line.partition("  ") for line in done.stdout.splitlines())}
    shown = {name: text.strip() for name, text in shown.items()}
    assert "linux-source-7.3 (to be fetched)" in shown["needs"]
    assert shown["kernels"] == "stock (to be built), lull (to be built)"
    assert shown["boots"] == "8: stock 2, lull 4, stock.control 2"
    assert shown[f"lull+{AGING}=sync"] == "young" and shown["results"] == "x"
    assert not any(tool.cache.iterdir()) and not (tool.cwd / "x").exists()


def test_an_image_of_your_own_is_run_beside_stock(within: Within, own_cache: Path) -> None:
    """Under the name of its file, changed where a kernel of the base has that name; with --kernel beside those, too."""
    Path("Image").write_bytes(image({}))
    Path("lull").write_bytes(image({}))
    Path("map").write_text("ffff800080000000 T start\n")
    words = ["run", "--dry-run", "--repeat", "1", "--workload", "young", "--symbols", "map", "--image"]
    done = within(*words, "Image")
    assert done.returncode == 0, done.stderr
    assert "stock (to be built), Image (your own)\n" in done.stdout
    assert "3: stock 1, Image 1, stock.control 1\n" in done.stdout
    assert "4: stock 1, lull 1, ._lull 1, stock.control 1\n" in within(*words, "lull", "--kernel", "lull").stdout
    assert "3: stock 1, Image 1, stock.control 1\n" in within(*words, "Image", "--kernel", "stock").stdout
    assert not any(own_cache.iterdir())
    Path("map").write_text("ffff800080000000 T _text\nffff800080000800 B _end\n")
    done = within(*words, "Image")
    assert done.returncode == 2 and "the symbols are of another kernel" in done.stderr


def test_an_image_of_your_own_is_copied(tmp_path: Path) -> None:
    """What a run depends on is in the cache under a key of its content, whatever becomes of the file."""
    image, place = tmp_path / "Image", tmp_path / "map"
    image.write_bytes(b"first")
    place.write_text("ffff800080000000 T queued_spin_lock_slowpath\nffff800080000040 T other\n")
    lab = Lab()
    lab.adopt("Image", image, place)
    first = lab.kernel("Image")
    image.write_bytes(b"second")
    assert first.image.read_bytes() == b"first" and first.limit_factor == 1
    assert lab.skips("Image") == ("skip=0xffff800080000000-0xffff800080000040",)
    assert lab.has(lambda lab: lab.kernel("Image"))
    lab.adopt("Image", image, place)
    assert lab.kernel("Image").image.read_bytes() == b"second" and first.image.read_bytes() == b"first"


def test_a_suites_kernels_have_its_configuration(tool: Tool) -> None:
    """And say so before they are built."""
    done = tool("build", "--dry-run", "--suite", "real", "--kernel", "lull")
    assert re.search(r"lull\.config \S*real\.config", done.stdout)


@pytest.mark.parametrize(
    ("words", "said"),
    [(["--fast"], "-m 'not guest and not whole'"), ([], "-m 'not whole'"), (["--all"], "--durations=8\n")],
)
def test_tiers(tool: Tool, words: list[str], said: str) -> None:
    """Which tests are left out."""
    assert said in tool("test", "--dry-run", *words).stdout


def test_offline_with_an_empty_cache(tool: Tool) -> None:
    """Exit 7, and the command that helps."""
    done = tool("build", "--offline")
    assert done.returncode == 7
    assert "lull fetch" in done.stderr


def test_doctor_as_json(tool: Tool) -> None:
    """Machine-readable, and says which metrics exist in which mode."""
    done = tool("doctor", "--json")
    findings = {f["name"]: f for f in json.loads(done.stdout)}
    assert "counted exactly" in findings["accel tcg"]["detail"]
    assert findings["gcc"]["state"] == "ok"


def launcher(
    path: str, *words: str, repository: Path = REPOSITORY, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run ./lull with a PATH of ours, and without the Python packages that the tests have."""
    return subprocess.run(
        [str(repository / "lull"), *words],
        text=True,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": "", "PATH": path, **environment},
    )


@pytest.fixture
def bare_path(tmp_path: Path) -> Path:
    """A PATH with what every system has, and none of what the lab needs."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "dirname", "readlink", "uname", "id", "cat", "cut", "sha256sum", "tail", "sed", "mkdir"):
        found = next(Path(p) / name for p in [*os.defpath.split(":"), "/usr/bin", "/bin"] if (Path(p) / name).exists())
        (folder / name).symlink_to(found)
    return folder


def test_launcher_names_everything_missing_in_one_line(bare_path: Path) -> None:
    """An ordinary user (or root with --dry-run) gets one apt line, exit 3, and nothing is installed."""
    (bare_path / "apt-get").write_text("#!/bin/sh\necho apt-get was run >&2\n")
    (bare_path / "apt-get").chmod(0o755)
    done = launcher(str(bare_path), "run", "--dry-run")
    assert done.returncode == 3
    line = next(x for x in done.stderr.splitlines() if "apt-get install" in x)
    for package in ("python3", "python3-venv", "flex", "bison", "make"):
        assert f" {package}" in line
    assert "apt-get was run" not in done.stderr


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["list"], 0, "workloads: --workload"),
        (["list", "--json"], 0, '"workloads"'),
        (["doctor"], 3, "missing  flex"),
        (["--help"], 0, "exit codes"),
        ([], 2, "exit codes"),
        (["--version"], 0, "lull 0"),
        (["run", "--help"], 0, "--workload"),
        (["check", "--quiet", "-h"], 0, "--mutant"),
    ],
)
def test_launcher_with_python_alone(bare_path: Path, tmp_path: Path, words: list[str], status: int, said: str) -> None:
    """Nothing is installed or fetched, no package is asked for, and the cache may be anywhere."""
    (bare_path / "apt-get").write_text("#!/bin/sh\necho apt-get was run >&2\n")
    (bare_path / "apt-get").chmod(0o755)
    (bare_path / "python3").symlink_to(Path(sys.executable).resolve())
    place = tmp_path / "empty cache"
    done = launcher(str(bare_path), *words, LULL_CACHE=str(place))
    assert (done.returncode, said in done.stdout) == (status, True), done.stderr + done.stdout
    assert "apt-get was run" not in done.stderr
    assert {path.name for path in place.glob("*")} <= {"pycache"}


def test_launcher_refuses_a_cache_with_a_space(bare_path: Path, tmp_path: Path) -> None:
    """Before a package is asked for; so does the tool, for one that is named from its own folder."""
    done = launcher(str(bare_path), "build", LULL_CACHE=str(tmp_path / "a b"))
    assert done.returncode == 2 and "with a space" in done.stderr and "LULL_CACHE" in done.stderr
    assert not (tmp_path / "a b").exists()


def test_a_cache_with_a_space_is_refused_before_anything_is_fetched(tool: Tool, tmp_path: Path) -> None:
    place = tmp_path / "a b"
    for command in ("fetch", "build", "run", "test"):
        done = tool(command, LULL_CACHE=str(place))
        assert done.returncode == 2 and "with a space" in done.stderr
    assert not place.exists()
    done = tool("doctor", "--json", LULL_CACHE=str(place))
    assert done.returncode == 3
    assert {"name": "LULL_CACHE", "state": "missing"}.items() <= json.loads(done.stdout)[-5].items()


def test_launcher_of_a_checkout_with_a_space(tmp_path: Path) -> None:
    """It finds itself, the list of packages, and what the tool reads."""
    place = tmp_path / "my checkout"
    place.mkdir()
    shutil.copy(REPOSITORY / "lull", place)
    shutil.copytree(REPOSITORY / "src", place / "src")
    for name in ("kernel", "guest", "checker", "timing", "requirements.in", "requirements.txt"):
        (place / name).symlink_to(REPOSITORY / name)
    packages = os.environ.get("PYTHONPATH", "")
    words = ["run", "--dry-run", "--workload", "young"]
    done = launcher(
        os.environ["PATH"], *words, repository=place, LULL_CACHE=str(tmp_path / "cache"), PYTHONPATH=packages
    )
    assert done.returncode == 0, done.stderr
    assert "to be built" in done.stdout


def test_the_tool_without_its_optional_parts(tmp_path: Path) -> None:
    """A copy without contrib/ has all other commands."""
    shutil.copytree(REPOSITORY / "src", tmp_path / "src")
    for name in ("kernel", "guest", "checker", "timing"):
        (tmp_path / name).symlink_to(REPOSITORY / name)
    start = [sys.executable, tmp_path / "src"]
    done = [subprocess.run([*start, word], text=True, capture_output=True) for word in ("--help", "list", "x86")]
    assert [one.returncode for one in done] == [0, 0, 2] and "optional" not in done[0].stdout
    assert "unknown command 'x86'" in done[2].stderr


def test_launcher_through_a_link(bare_path: Path, tmp_path: Path) -> None:
    """It finds its repository: the packages that it names are of a list there."""
    (tmp_path / "lull").symlink_to(REPOSITORY / "lull")
    words = [str(tmp_path / "lull"), "run", "--dry-run"]
    done = subprocess.run(words, text=True, capture_output=True, env={**os.environ, "PATH": str(bare_path)})
    assert done.returncode == 3 and " flex" in done.stderr


def test_launcher_without_apt_names_tree(bare_path: Path) -> None:
    """A host of another kind is told what is missing and about --tree."""
    done = launcher(str(bare_path), "run")
    assert done.returncode == 3
    assert "--tree" in done.stderr


def test_launcher_offline_without_packages(tmp_path: Path) -> None:
    """No Python packages in the cache and no network allowed: exit 7 and what to do."""
    done = launcher(os.environ["PATH"], "build", "--offline", LULL_CACHE=str(tmp_path / "empty"))
    assert done.returncode == 7
    assert "requirements.txt" in done.stderr and "once with a network" in done.stderr


def test_launcher_on_a_full_disk(tmp_path: Path) -> None:
    """Exit 8, and what to do: the environment is of the size of a disk."""
    command = [*small_disk(tmp_path, "1m"), str(REPOSITORY / "lull"), "run", "--dry-run"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, text=True, capture_output=True, env={**environment, "LULL_CACHE": str(tmp_path)})
    assert done.returncode == 8, done.stderr
    assert "no space left on the device" in done.stderr and "free some" in done.stderr
