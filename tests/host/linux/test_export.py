# SPDX-License-Identifier: GPL-2.0-only
"""The series: git am of them makes what 'lull tree' makes; each applies to the base and what it needs alone."""

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
from lull.errors import ApplyError, LullError
from lull.linux import export, message, series, switches
from lull.linux.tree import Tree

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
    assert json.loads(done.stdout) == {"series": [{"name": "", "folder": str(out), "needs": [], "mails": mails}]}
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
    assert message.text(export.figures(bases.load(), bases.Subject("", ("fast",)))) in letter
    assert f"measured on Linux {export.measured_on()}." in letter.replace("\n", " ")
    assert "Recipients" not in letter and "What gets worse" not in letter
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
    assert json.loads(done.stdout)["series"][0]["mails"] == mails
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
    assert "lab" not in done.stdout.replace("lull", "")
    done = tool("export", "6.99")
    assert done.returncode == 2 and "6.99" in done.stderr


def test_the_figures_say_where_they_are_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above what is marked, where single lines may name another Linux."""
    page = tmp_path / "figures.md"
    monkeypatch.setattr(export, "FIGURES", page)
    page.write_text(
        "<!-- for: a -->\non Linux 6.6.1\n<!-- end -->\nCounted on\nLinux 7.3.4, but on Linux 6.12 where it says so.\n"
    )
    assert export.measured_on() == "7.3.4"
    page.write_text("Counted.\n")
    with pytest.raises(LullError, match="no base is named"):
        export.measured_on()


def test_a_part_may_be_for_a_base() -> None:
    """As it may be for a subject; the series of all features has every part."""
    base, subject = bases.load("6.12"), bases.Subject("young", ("young",))
    text = "".join(f"<!-- for: {name} -->\n{name}\n<!-- end -->\n" for name in ("6.12", "7.3", "young hvo", "hvo"))
    assert export.selected(text, base, subject) == "6.12\nyoung hvo\n"
    assert export.selected(text, base, bases.Subject("", ("young",))) == "6.12\n7.3\nyoung hvo\nhvo\n"


DIVIDED = """
lists = ["init/list"]

[kernels.lull]
config = ["config/fake.config"]
features = true

[features.first]
[features.middle]
[features.last]

[subjects.residency]
features = ["first"]
to = ["FAKE PORT"]

[subjects.gather]
features = ["middle"]
needs = ["residency"]
to = ["FAKE PORT", "FAKE MM"]

[subjects.hvo]
features = ["last"]
shares = ["first"]
"""
"""A base of three features, which add a line each to a list, the second and the third behind the line before."""
LINES = {"first": ["top", "obj-0"], "middle": ["obj-0", "first"], "last": ["obj-0", "first", "middle"]}
"""The context of each feature's line."""
MAINTAINERS = """FAKE PORT
M:	A Stranger <stranger@localhost>
L:	port@localhost (moderated)
S:	Maintained

FAKE MM
S:	Orphan
"""


@pytest.fixture
def divided(tool: Tool, fake_tree: Path, tmp_path: Path) -> Fake:
    """Run a command of the tool on a base with three series; ``base`` replaces text of its TOML file."""
    (fake_tree / "init/list").write_text("top\nobj-0\n")
    (fake_tree / "MAINTAINERS").write_text(MAINTAINERS)
    folder = tmp_path / "base"
    for name, context in LINES.items():
        body = "".join(f" {line}\n" for line in context)
        hooks = f"--- a/init/list\n+++ b/init/list\n@@ -1,{len(context)} +1,{len(context) + 1} @@\n{body}+{name}\n"
        note = f"# fake: add {name}\n\nA line.\n"
        letter = f"# fake: the series of {name}\n\nWhy {name}.\n\n## What gets worse\n\n* The list.\n"
        write_files(folder / name, {"NOTE.md": note, "hooks/6.12.patch": hooks, "COVER.md": letter})
        write_files(folder / name, {f"files/init/{name}.h": "/* own */\n"})

    def run(command: str, *words: str, **base: str) -> CompletedProcess[str]:
        text = f'series = "6.12"\n{DIVIDED}'
        for old, new in base.items():
            assert old in text
            text = text.replace(old, new)
        write_files(folder, {"bases/fake.toml": text, "config/fake.config": ""})
        return tool(command, "--base", str(folder / "bases/fake.toml"), "--tree", str(fake_tree), "--offline", *words)

    return run


def test_a_series_for_each_subject(divided: Fake, fake_tree: Path, tmp_path: Path) -> None:
    """In a folder each. Each applies to the base and the series that it needs, without the others."""
    out = tmp_path / "out"
    done = divided("export", "--out", str(out), "--json")
    assert done.returncode == 0, done.stderr
    found = {one["name"]: one for one in json.loads(done.stdout)["series"]}
    assert [(name, one["needs"], one["folder"]) for name, one in found.items()] == [
        ("residency", [], str(out / "residency")),
        ("gather", ["residency"], str(out / "gather")),
        ("hvo", [], str(out / "hvo")),
    ]
    assert found["hvo"]["mails"] == [
        "0000-cover-letter.patch",
        "0001-fake-add-first.patch",
        "0002-fake-add-last.patch",
    ]
    series.commit_base(fake_tree, "6.12.0")
    for name, lines in (("residency", ["first"]), ("gather", ["first", "middle"]), ("hvo", ["first", "last"])):
        git(fake_tree, "checkout", "-q", series.BRANCH)
        folders = [out / one for one in (*found[name]["needs"], name)]
        apply_mails(fake_tree, *folders)
        assert (fake_tree / "init/list").read_text().split() == ["top", "obj-0", *lines]


def test_letters_of_subjects(divided: Fake, tmp_path: Path) -> None:
    """Each says what it is, what it needs and shares, and who gets it; what is marked for others is left out."""
    assert divided("export", "--out", str(tmp_path / "out")).returncode == 0
    letters = {
        name: " ".join((tmp_path / "out" / name / "0000-cover-letter.patch").read_text().split())
        for name in ("residency", "gather", "hvo")
    }
    assert "Subject: [PATCH 0/2] fake: the series of last" in letters["hvo"] and "Why last." in letters["hvo"]
    assert "It applies to Linux 6.12.0, and needs no other series." in letters["residency"]
    assert "It applies to Linux 6.12.0, after the series residency." in letters["gather"]
    assert 'The series residency has "fake: add first", too: omit it where' in letters["hvo"]
    assert "* FAKE PORT: port@localhost * FAKE MM: no list" in letters["gather"]
    assert "Recipients" not in letters["hvo"] and "Stranger" not in "".join(letters.values())
    assert all("What gets worse: * The list." in letter for letter in letters.values())
    assert "system D" in letters["hvo"] and "system D" not in letters["gather"]
    assert "Switches" not in letters["gather"].split("What gets worse")[0].split("Recipients")[0]
    assert not [letter for letter in letters.values() if re.search(r"\{\w+\}|<!--", letter)]


def test_series_by_name(divided: Fake, tmp_path: Path) -> None:
    """Only these, in the order of the base; --dry-run says the same. An unknown one is refused."""
    words = ["--series", "hvo", "--series", "residency", "--out", str(tmp_path / "out")]
    done = divided("export", *words, "--dry-run", "--json")
    assert [(one["name"], one["patches"]) for one in json.loads(done.stdout)["series"]] == [
        ("residency", ["first"]),
        ("hvo", ["first", "last"]),
    ]
    assert divided("export", *words).returncode == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["hvo", "residency"]
    done = divided("export", "--series", "hov", "--dry-run")
    assert done.returncode == 2 and "unknown series 'hov'" in done.stderr and "did you mean hvo?" in done.stderr


def test_series_of_a_base_without_subjects(fake: Fake) -> None:
    """There is one, which has no name."""
    done = fake("export", "--series", "hvo", "--dry-run")
    assert done.returncode == 2 and "has no subjects" in done.stderr


def test_exported_series_are_replaced(divided: Fake, tmp_path: Path) -> None:
    """All of them; a folder with anything else in it stays, and is named."""
    out = tmp_path / "out"
    for words in ([], ["--series", "gather"]):
        assert divided("export", "--out", str(out), *words).returncode == 0
    assert [path.name for path in out.iterdir()] == ["gather"]
    for name in ("mine", "gather"):
        write_files(out / name, {"notes": "mine\n"})
        done = divided("export", "--out", str(out))
        assert done.returncode == 2 and f"holds other things: {name}\n" in done.stderr
        shutil.rmtree(out / name)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('needs = ["residency"]', 'needs = ["hvo"]', "subject 'gather' needs 'hvo', which is no subject before it"),
        ('features = ["middle"]', 'features = ["midle"]', "subject 'gather' has the unknown feature 'midle'"),
        ('features = ["middle"]', "features = []", "subject 'gather' has no features"),
        ('features = ["last"]', 'features = ["last", "middle"]', "'middle' is in the subjects gather and hvo"),
        ("[features.last]", "[features.last]\n[features.more]", "feature 'more' is in no subject"),
        ('shares = ["first"]', 'shares = ["last"]', "subject 'hvo' shares 'last', which it has or needs anyway"),
        (
            'needs = ["residency"]',
            'needs = ["residency"]\nshares = ["first"]',
            "subject 'gather' shares 'first', which",
        ),
        ('shares = ["first"]', 'shares = ["frist"]', "subject 'hvo' has the unknown feature 'frist'"),
    ],
)
def test_subjects_that_cannot_be(divided: Fake, old: str, new: str, said: str) -> None:
    """Each is refused, with the file and what to do."""
    done = divided("export", "--dry-run", **{old: new})
    assert done.returncode == 2 and said in done.stderr, done.stderr
    assert "fake.toml" in done.stderr and "to do: " in done.stderr


def test_errors_of_an_export(divided: Fake, fake_tree: Path, tmp_path: Path) -> None:
    """Recipients whom MAINTAINERS lacks, an unknown section of a letter, and a hunk that fits in several places."""
    out = tmp_path / "out"
    done = divided("export", "--out", str(out), **{'"FAKE MM"': '"FAKE MN"'})
    assert done.returncode == 2 and "MAINTAINERS has no entry 'FAKE MN'" in done.stderr
    letter = tmp_path / "base/last/COVER.md"
    letter.write_text(f"{letter.read_text()}\n## What is bad\n\n* All.\n")
    done = divided("export", "--out", str(out))
    assert done.returncode == 3 and "the section 'What is bad' is not in COVER.md" in done.stderr
    assert "use one of: Recipients, Switches, What gets worse" in done.stderr
    hooks = tmp_path / "base/middle/hooks/6.12.patch"
    hooks.write_text("--- a/init/list\n+++ b/init/list\n@@ -1,4 +1,5 @@\n other\n+x\n obj-0\n obj-1\n obj-2\n")
    (fake_tree / "init/list").write_text("top\n" + "obj-0\nobj-1\nobj-2\n" * 2 + "top\nobj-0\n")
    done = divided("export", "--out", str(out))
    assert (
        done.returncode == 9 and "feature middle does not apply: several places fit: init/list, hunk 1" in done.stderr
    )
    assert not out.exists()


def test_marks_name_subjects_and_bases() -> None:
    """That are there; each subject has figures, and a letter with a title that a mail's subject has room for."""
    for base in map(bases.load, bases.known()):
        letters = [subject.letter for subject in base.subjects.values() if subject.letter]
        for page in (export.FRAME, export.FIGURES, *letters):
            text = page.read_text()
            assert text.count("<!-- for: ") == text.count("<!-- end -->") == len(export.MARKED.findall(text))
            named = {name for names, _ in export.MARKED.findall(text) for name in names.split()}
            assert named <= {*base.subjects, *bases.known()}, page
        for subject in base.subjects.values():
            assert export.figures(base, subject)
            assert subject.letter and 0 < len(message.split(subject.letter.read_text())[0]) <= message.WIDTH
    assert export.measured_on()


def test_counters_are_what_the_hooks_add() -> None:
    """By the names that the notes give them, too."""
    features = bases.load().features
    assert switches.counters(features["gather"]) == []
    assert switches.counters(features["young_lab"]) == ["young_sync", "young_nosync", "young_none"]
    assert switches.counters(features["core"]) == []
    for name, feature in bases.load("6.12").exported().items():
        assert switches.counters(feature) == switches.counters(features[name])


LONG = ("vmemmap/optimize",)
"""Patches whose code is one piece: no part of it does anything without the rest."""


def test_features_are_patches_that_can_be_read() -> None:
    """Each changes at most 300 lines: of its own files, and of those that exist."""
    for patch in bases.patches_of(bases.load().exported().values()):
        changed = sum(len(file.read_text().splitlines()) for file in patch.files().values())
        changed += len(re.findall(r"(?m)^[-+](?![-+]{2} )", patch.hooks_text()))
        assert changed > 0 and (changed > 300) == (patch.name in LONG), f"{patch.name}: {changed} changed lines"


FIX = """From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001
From: Lull <lull@localhost>
Date: Thu, 1 Jan 1970 00:00:00 +0000
Subject: [PATCH] fake: count to {count}

---
 init/list | 2 +-

diff --git a/init/list b/init/list
--- a/init/list
+++ b/init/list
@@ -1,2 +1,2 @@
 top
-obj-0
+obj-{count}
"""


def test_fixes_of_a_base(fake_tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those for all series and those for its own, unchanged. One that does not fit is named, and nothing is left."""
    (fake_tree / "init/list").write_text("top\nobj-0\n")
    mails = {name: FIX.format(count=count) for count, name in enumerate(["all.patch", "old-6.12.patch"], 1)}
    write_files(tmp_path / "fixes", {**mails, "new-7.3.patch": "", "README.md": ""})
    monkeypatch.setattr(export, "FIXES", tmp_path / "fixes")
    pristine, out = Tree(fake_tree, "0", "6.12.0"), tmp_path / "out"
    for _ in range(2):
        found = export.export_fixes(pristine, bases.load("6.12"), out)
    assert {mail.name: mail.read_text() for mail in found} == {
        "0001-all.patch": mails["all.patch"],
        "0002-old-6.12.patch": mails["old-6.12.patch"],
    }
    assert (fake_tree / "init/list").read_text() == "top\nobj-0\n"
    (fake_tree / "init/list").write_text("top\nobj-3\n")
    with pytest.raises(ApplyError) as error:
        export.export_fixes(pristine, bases.load("6.12"), tmp_path / "other")
    assert "the fix all does not apply: init/list, hunk 1" in error.value.what
    assert sorted(p.name for p in tmp_path.iterdir()) == ["fixes", "linux", "out"]


def test_the_command_names_the_fixes(fake: Fake, tmp_path: Path) -> None:
    """--dry-run and --json; with a series it is refused. On a Linux to which a fix is foreign it fails."""
    done = fake("export", "--fixes", "--dry-run", "--json", "--out", str(tmp_path / "out"))
    names = [mail.name for mail in export.fixes(bases.load("6.12"))]
    assert json.loads(done.stdout) == {"fixes": {"folder": str(tmp_path / "out"), "mails": names}}
    assert any(name.endswith("-6.12.patch") for name in names) and any(not name[-7].isdigit() for name in names)
    assert not [mail for mail in export.fixes(bases.load("7.3")) if mail.name.endswith("-6.12.patch")]
    assert fake("export", "--fixes", "--series", "x").returncode == 2
    done = fake("export", "--fixes", "--out", str(tmp_path / "out"))
    assert done.returncode == 9 and f"the fix {Path(names[0]).stem} does not apply" in done.stderr
    assert not (tmp_path / "out").exists()
