# SPDX-License-Identifier: GPL-2.0-only
"""Cost files: those there are, what one may hold, and that a wrong one is refused with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from lull import paths, timing
from lull.errors import UsageError

GOOD = """
about = "a machine"
cpus = 8
[costs]
insn = 0.5
tlbi = 10
broadcast = 1000
dsb = 20.25
[source]
insn = "assumed"
tlbi = "assumed"
broadcast = "measured"
dsb = "assumed"
[[figure]]
what = "mprotect"
measure = "seconds"
published = 2
calibrated = true
workload = "mprotect_pinned"
operations = 100
cpus = 8
"""


def written(folder: Path, text: str) -> str:
    """The path of a cost file with this text."""
    path = folder / "mine.toml"
    path.write_text(text)
    return str(path)


def test_the_models_are_whole() -> None:
    """Each says where its costs come from and has figures of both kinds: fitted to, and not."""
    assert timing.known() == ["ampere-32", "kunpeng-920", "snapdragon-888"]
    for name in timing.known():
        model = timing.load_model(name)
        assert model.name == name and model.about
        assert set(model.sources) - {"receive"} == {"insn", "tlbi", "broadcast", "latency", "dsb", "walk"}
        assert {figure.calibrated for figure in model.figures} == {True, False}


def test_costs_are_what_the_published_numbers_give() -> None:
    """The arithmetic that the sources state."""
    ampere = timing.load_model("ampere-32")
    assert ampere.costs.broadcast == pytest.approx(2.1696 / 640_000 * 1e9, rel=1e-3)
    for name, before, flush in (("kunpeng-920", 13.460, 890), ("snapdragon-888", 14.69, 310)):
        costs = timing.load_model(name).costs
        assert costs.broadcast + costs.tlbi + 2 * costs.dsb == flush
        assert costs.insn == pytest.approx((before * 1e9 / 2_560_000 - flush) / 25_060, rel=2e-3)


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    """By its path; what may be left out has a default; the plugin gets every cost that it knows."""
    model = timing.load_model(written(tmp_path, GOOD))
    assert (model.name, model.about, model.cpus) == ("mine", "a machine", 8)
    assert model.costs == timing.Costs(0.5, 10, 1000, 20.25, 0, 0)
    assert model.options() == (
        "cost=insn:0.500",
        "cost=tlbi:10.000",
        "cost=broadcast:1000.000",
        "cost=dsb:20.250",
        "cost=latency:0.000",
    )
    (figure,) = model.figures
    assert (figure.published, figure.kernel, figure.wait, figure.operations) == (2, "stock", "batch", 100)


def test_an_unknown_name_gets_the_nearest() -> None:
    """As every other name of the tool; the template is no model."""
    with pytest.raises(UsageError) as error:
        timing.load_model("ampere-23")
    assert "did you mean ampere-32?" in error.value.text()
    with pytest.raises(UsageError, match="unknown timing model 'template2'"):
        timing.load_model("template2")
    with pytest.raises(UsageError, match=r"there is no cost file 'none\.toml'"):
        timing.load_model("none.toml")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("insn = 0.5", "insn = nan", "insn is not filled in"),
        ("insn = 0.5", "insn = 0", "insn is 0"),
        ("insn = 0.5", "insn = 0.0004", "insn is 0 when rounded to picoseconds"),
        ("insn = 0.5", "insn = -1", "a finite number, at least 0"),
        ("insn = 0.5", "insn = inf", "a finite number, at least 0"),
        ("insn = 0.5", "insn = 10_000_000", "insn is 10000000 ns: less than 10 ms"),
        ("insn = 0.5", 'insn = "1"', "insn is '1', not a number"),
        ("insn = 0.5", "insn = true", "insn is True, not a number"),
        ("insn = 0.5\n", "", "[costs] has no 'insn'"),
        ("insn = 0.5", "insn = 0.5\nwlak = 3", "unknown name 'wlak'"),
        ('insn = "assumed"', 'insn = " "', "[source] does not say where 'insn' comes from"),
        ('insn = "assumed"', 'insns = "assumed"', "unknown name 'insns'"),
        ("dsb = 20.25", "dsb = 20.25\nwalk = 0", "[source] does not say where 'walk' comes from"),
        ("cpus = 8\n[costs]", "cpus = 8.5\n[costs]", "cpus is 8.5"),
        ('about = "a machine"', "", "'about' is missing"),
        ("[costs]", "[cost]", "the file has the unknown name 'cost'"),
        ("[[figure]]", "[figure]", "write [[figure]]"),
        ('measure = "seconds"', 'measure = "second"', "known: seconds, flush, saving, ratio"),
        ("published = 2", "published = 0", "'published' and 'cpus' must be more than 0"),
        ("operations = 100", "operations = 1.5", "operations is 1.5"),
        ("operations = 100", "", "how many operations"),
        ('workload = "mprotect_pinned"', "", "names no workload"),
        ("calibrated = true", "calibrated = 1", "calibrated is 1"),
        ("calibrated = true", "", "has no 'calibrated'"),
        ("operations = 100", 'operations = 100\nwait = "page"', "known: batch, each"),
        ("[source]", "[source", "not a cost file"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    """What is wrong, in which file, and where it is explained; never a traceback, never a silent 0."""
    assert old in GOOD
    with pytest.raises(UsageError) as error:
        timing.load_model(written(tmp_path, GOOD.replace(old, new)))
    assert message in error.value.text()
    assert "mine.toml" in error.value.text() and "template.toml" in error.value.text()


def test_the_template_is_refused_until_it_is_filled_in(tmp_path: Path) -> None:
    """Its example of a figure is right, once it is no comment any more."""
    text = (paths.TIMING / "template.toml").read_text()
    with pytest.raises(UsageError, match="insn is not filled in"):
        timing.load_model(written(tmp_path, text))
    text = text.replace("nan", "1").replace('= ""', '= "assumed"')
    head, example = text.split("# [[figure]]")
    filled = head + "[[figure]]" + example.replace("\n# ", "\n")
    filled = "\n".join(line for line in filled.splitlines() if not line.startswith(" "))
    (figure,) = timing.load_model(written(tmp_path, filled)).figures
    assert (figure.workload, figure.published) == ("mprotect_pinned", 0.5)
