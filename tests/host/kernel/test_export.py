# SPDX-License-Identifier: GPL-2.0-only
"""The series: by git am it is what 'lull tree' makes; checkpatch.pl likes it; each step builds and boots."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from support import FAKE, SUMMARY, Tool

from lull import base as bases
from lull.guest.qemu import Machine
from lull.guest.runner import launch_retrying
from lull.kernel import build, export, message, series, switches
from lull.kernel.tree import Tree
from lull.lab import Lab
from lull.progress import progress

Fake = Callable[..., CompletedProcess[str]]
STRANGER = ["-c", "user.name=A Stranger", "-c", "user.email=stranger@localhost"]
NOT_OURS = {
    "arch/arm64/include/asm/tlbflush.h": "PARENTHESIS_ALIGNMENT",
    "arch/arm64/include/asm/smp.h": "AVOID_EXTERNS",
    "arch/arm64/kernel/cpufeature.c": "LONG_LINE",
}
"""Where a line follows its neighbours, and they are not as checkpatch.pl would have them now."""


@pytest.fixture
def fake(tool: Tool, fake_tree: Path, tmp_path: Path) -> Fake:
    """Run a command of the tool on the fake kernel, whose base has a feature of the lab kernel's too."""
    folder = tmp_path / "base"
    shutil.copytree(FAKE, folder, ignore=shutil.ignore_patterns("linux", "qemu"))
    shutil.copytree(folder / "fast/files", folder / "secret/files")
    (folder / "secret/files/init/fast.h").rename(folder / "secret/files/init/secret.h")
    with open(folder / "bases/fake.toml", "a") as base:
        base.write('\n[features.secret]\nonly = ["lab"]\n')

    def run(command: str, *words: str, **options: str) -> CompletedProcess[str]:
        common = ["--base", str(folder / "bases/fake.toml"), "--tree", str(fake_tree), "--offline"]
        return tool(command, *common, *words, **options)

    return run


def git(tree: Path, *words: str) -> str:
    """Output of git, as a stranger uses it."""
    return subprocess.run(["git", "-C", tree, *STRANGER, *words], capture_output=True, text=True, check=True).stdout


def apply(tree: Path, mails: Path) -> str:
    """Apply a series by git am to the base of a tree of 'lull tree'; returns what the tree is then."""
    git(tree, "checkout", "-q", "-b", "mails", series.BASE_TAG)
    git(tree, "am", "-q", "--empty=drop", *map(str, sorted(mails.glob("*.patch"))))
    return git(tree, "rev-parse", "HEAD^{tree}")


def test_git_am_gives_the_tree(fake: Fake, tmp_path: Path) -> None:
    """The same files; a message that people can complete; nothing of the lab kernel's."""
    out, tree = tmp_path / "a series", tmp_path / "tree"
    done = fake("export", "--out", str(out), "--json")
    assert done.returncode == 0, done.stderr
    mails = ["0000-cover-letter.patch", "0001-fake-broadcast-less.patch"]
    assert json.loads(done.stdout) == {"series": str(out), "mails": mails}
    assert sorted(p.name for p in out.iterdir()) == mails
    assert fake("tree", str(tree)).returncode == 0
    assert apply(tree, out) == git(tree, "rev-parse", f"{series.BRANCH}^{{tree}}")
    assert git(tree, "log", "-1", "--format=%B").splitlines() == [
        "fake: broadcast less",
        "",
        "The fake kernel's feature: a tenth of the broadcasts.",
        "",
        export.ASSISTED,
        "",
    ]
    assert "secret.h" not in "".join(mail.read_text() for mail in out.iterdir())


def test_the_same_bytes(fake: Fake, tmp_path: Path) -> None:
    """Whatever the user's git prefers, and whichever language is spoken."""
    preferred = tmp_path / "gitconfig"
    preferred.write_text(
        "[user]\nname = X\nemail = x@localhost\n[format]\nsignOff = true\nthread = true\nattach = true\n"
        "[diff]\nnoprefix = true\nalgorithm = patience\ncontext = 9\n[core]\nabbrev = 5\n[log]\nshowSignature = true\n"
    )
    assert fake("export", "--out", str(tmp_path / "a")).returncode == 0
    done = fake(
        "export", "--out", str(tmp_path / "b"), GIT_CONFIG_GLOBAL=str(preferred), LC_ALL="de_DE.UTF-8", TZ="Asia/Tokyo"
    )
    assert done.returncode == 0, done.stderr
    first, second = ({m.name: m.read_bytes() for m in (tmp_path / name).iterdir()} for name in "ab")
    assert first == second


def test_the_letter(fake: Fake, tmp_path: Path) -> None:
    """It has a subject, the figures, the switches, and each commit with what it changes; no brace is left."""
    assert fake("export", "--out", str(tmp_path / "out")).returncode == 0
    letter = (tmp_path / "out/0000-cover-letter.patch").read_text()
    assert re.search(r"(?m)^Subject: \[PATCH 0/1\] arm64/mm: ", letter)
    assert "/sys/kernel/mm/lull/fast  on off    on       off" in letter
    assert message.text(export.figures()) in letter
    assert "1. fake: broadcast less\n\n    init/fast.h | 2 ++\n    init/main.c | 2 +-\n" in letter
    assert not re.search(r"\{\w+\}", letter)


def test_what_is_in_the_way(fake: Fake, tmp_path: Path) -> None:
    """A series is replaced; anything else stays, and is named."""
    out = tmp_path / "out"
    for _ in range(2):
        assert fake("export", "--out", str(out)).returncode == 0
    (out / "0002-mine.patch").write_text("From: Somebody <else@localhost>\n")
    before = {p.name: p.read_bytes() for p in out.iterdir()}
    done = fake("export", "--out", str(out))
    assert done.returncode == 2 and "0002-mine.patch" in done.stderr
    assert {p.name: p.read_bytes() for p in out.iterdir()} == before
    assert sorted(p.name for p in tmp_path.glob(".*.part")) == []


def test_a_tree_that_does_not_fit(fake: Fake, fake_tree: Path, tmp_path: Path) -> None:
    """Its own exit code, with file and hunk; nothing is left behind, and an earlier series stays."""
    out = tmp_path / "out"
    assert fake("export", "--out", str(out)).returncode == 0
    before = {p.name: p.read_bytes() for p in out.iterdir()}
    main = fake_tree / "init/main.c"
    main.write_text(main.read_text().replace("#define BROADCASTS\t40", "#define BROADCASTS\t41"))
    done = fake("export", "--out", str(out))
    assert done.returncode == 9 and "init/main.c, hunk 1" in done.stderr
    assert {p.name: p.read_bytes() for p in out.iterdir()} == before
    assert sorted(p.name for p in tmp_path.glob(".*.part")) == []


def test_a_base_can_stand_by_itself(tool: Tool) -> None:
    """'lull export BASE', as '--base BASE'; an unknown one is refused."""
    done = tool("export", "6.12", "--dry-run")
    assert done.returncode == 0 and "core, residency" in done.stdout
    assert "lab" not in done.stdout.split("mail each for")[1]
    done = tool("export", "6.99")
    assert done.returncode == 2 and "6.99" in done.stderr


def test_counters_are_what_the_hooks_add() -> None:
    """By the names that the notes give them, too."""
    features = bases.load().features
    assert switches.counters(features["reclaim"]) == ["reclaim_settled", "reclaim_batched", "reclaim_ranges"]
    assert switches.counters(features["young"]) == ["young_sync", "young_nosync", "young_none"]
    assert switches.counters(features["core"]) == []


@pytest.mark.guest
def test_checkpatch(lab: Lab, tmp_path: Path) -> None:
    """checkpatch.pl --strict on each mail: only what a submission fills in, and lines like their neighbours."""
    mails = export.export(lab.pristine, lab.base, tmp_path / "out")[1:]
    left = "MISSING_SIGN_OFF,FILE_PATH_CHANGES"  # a sign-off; an entry in MAINTAINERS
    words = ["--strict", "--no-tree", "--no-summary", "--terse", "--showfile", "--show-types"]
    script = lab.pristine.path / "scripts/checkpatch.pl"
    done = subprocess.run(
        [script, *words, "--ignore", f"{left},CAMELCASE", *mails], capture_output=True, text=True, cwd=lab.pristine.path
    )
    said = re.findall(r"(?m)^(\S+?):\d+: \w+:(\w+): ", done.stdout)
    assert set(said) <= set(NOT_OURS.items()), done.stdout
    assert len(said) == len(done.stdout.splitlines()), done.stdout


@pytest.mark.guest
@pytest.mark.whole
def test_each_step_builds_and_boots(lab: Lab, tmp_path: Path) -> None:
    """git am on the real source gives what 'lull tree' makes; on the way there, each kernel boots to init."""
    mails = export.export(lab.pristine, lab.base, tmp_path / "mails")[1:]
    tree = tmp_path / "tree"
    series.make_tree(lab.pristine, list(lab.base.exported().values()), tree)
    assert apply(tree, tmp_path / "mails") == git(tree, "rev-parse", f"{series.BRANCH}^{{tree}}")
    out = tmp_path / "objects"
    out.mkdir()
    fragments = build.fragments_text(lab.base.kernels["lull"].fragments)
    for number, mail in enumerate(mails, 1):
        git(tree, "checkout", "-q", f"mails~{len(mails) - number}")
        builder = build.Builder(Tree(tree, "", lab.pristine.version), lab.toolchain, out, tmp_path / f"{number}.log")
        with progress.step(mail.name) as step:
            builder.configure(fragments)
            builder.compile(step.update)
            seconds = step.elapsed
        guest = lab.guest_of(out / build.IMAGE, Machine(vcpus=2), "", None)
        boot = launch_retrying(
            guest, "program true\n", tmp_path / f"boot-{number}", job_seconds=lambda n: 60, tell=print, say=print
        )
        assert boot.done == 0, mail.name
        SUMMARY.append(f"{mail.name}: built in {seconds:.0f} s, booted")
