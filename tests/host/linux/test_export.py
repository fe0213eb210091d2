# SPDX-License-Identifier: GPL-2.0-only
"""The series: git am of it makes what 'lull tree' makes."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from support import FAKE, Tool, apply_mails, git, write_files

from lull import base as bases
from lull.linux import export, message, series, switches

Fake = Callable[..., CompletedProcess[str]]


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


def test_git_am_gives_the_tree(fake: Fake, tmp_path: Path) -> None:
    """The same files; a message that people can complete; nothing of the lab kernel's."""
    out, tree = tmp_path / "a series", tmp_path / "tree"
    done = fake("export", "--out", str(out), "--json")
    assert done.returncode == 0, done.stderr
    mails = ["0000-cover-letter.patch", "0001-fake-broadcast-less.patch"]
    assert json.loads(done.stdout) == {"series": str(out), "mails": mails}
    assert sorted(p.name for p in out.iterdir()) == mails
    assert fake("tree", str(tree)).returncode == 0
    assert apply_mails(tree, out) == git(tree, "rev-parse", f"{series.BRANCH}^{{tree}}")
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


def test_a_feature_of_two_patches(tool: Tool, fake_tree: Path, tmp_path: Path) -> None:
    """A mail and a commit each, in the order of the base; a commit changes just the folder of its patch."""
    folder = tmp_path / "base"
    shutil.copytree(FAKE, folder, ignore=shutil.ignore_patterns("linux", "qemu", "fast"))
    shutil.copytree(FAKE / "fast", folder / "fast/first")
    write_files(folder / "fast/second", {"NOTE.md": "# fake: more\n\nMore.\n", "files/init/more.h": "/* more */\n"})
    toml = folder / "bases/fake.toml"
    toml.write_text(toml.read_text().replace("[features.fast]", '[features.fast]\npatches = ["first", "second"]'))
    place = ["--base", str(toml)]
    source = [*place, "--tree", str(fake_tree), "--offline"]
    done = tool("export", *source, "--out", str(tmp_path / "out"), "--json")
    assert done.returncode == 0, done.stderr
    mails = ["0000-cover-letter.patch", "0001-fake-broadcast-less.patch", "0002-fake-more.patch"]
    assert json.loads(done.stdout)["mails"] == mails
    tree = tmp_path / "tree"
    assert tool("tree", *source, str(tree)).returncode == 0
    assert re.findall(r"Lull-feature: (.*)", git(tree, "log", "--format=%B")) == ["fast/second", "fast/first"]
    (tree / "init/more.h").write_text("/* still more */\n")
    git(tree, "commit", "-q", "-a", "-m", "More\n\nLull-feature: fast")
    done = tool("save", *place, str(tree))
    assert done.returncode == 2 and "known: fast/first, fast/second" in done.stderr
    git(tree, "commit", "-q", "--amend", "-m", "More\n\nLull-feature: fast/second")
    done = tool("save", *place, str(tree), "--json")
    assert done.returncode == 0, done.stderr
    (change,) = json.loads(done.stdout)
    assert change["change"] == "~" and change["path"].endswith("fast/second/files/init/more.h")


def test_a_base_can_stand_by_itself(tool: Tool) -> None:
    """'lull export BASE', as '--base BASE'; an unknown one is refused."""
    done = tool("export", "6.12", "--dry-run")
    assert done.returncode == 0 and "core, residency" in done.stdout
    assert "lab" not in done.stdout.split("mail each for")[1]
    done = tool("export", "6.99")
    assert done.returncode == 2 and "6.99" in done.stderr


def test_the_letter_says_which_features_a_base_lacks() -> None:
    """Of a base with some of the features only."""
    assert export.ported(bases.load()) == ""
    assert "only these: core, young.**" in export.ported(bases.load("7.3"))


def test_counters_are_what_the_hooks_add() -> None:
    """By the names that the notes give them, too."""
    features = bases.load().features
    assert switches.counters(features["gather"]) == ["gather_runs", "gather_hull"]
    assert switches.counters(features["young"]) == ["young_sync", "young_nosync", "young_none"]
    assert switches.counters(features["core"]) == []
    for name, feature in bases.load("7.3").features.items():
        assert switches.counters(feature) == switches.counters(features[name])


def test_residency_is_patches_that_can_be_read() -> None:
    """Each changes at most 300 lines: of its own files, and of those that exist."""
    for patch in bases.load().features["residency"].patches:
        changed = sum(len(file.read_text().splitlines()) for file in patch.files().values())
        changed += len(re.findall(r"(?m)^[-+](?![-+]{2} )", patch.hooks_text()))
        assert 0 < changed <= 300, f"{patch.name}: {changed} changed lines"
