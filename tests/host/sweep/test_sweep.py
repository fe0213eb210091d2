# SPDX-License-Identifier: GPL-2.0-only
"""Sweeps: what their jobs are, what is compared, and which machines may join."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from support import Tool

from lull.errors import LullError, UsageError
from lull.run.records import Record, Results
from lull.sweep import comparison as sweep_comparison
from lull.sweep import engine as sweep_engine
from lull.sweep import job as sweep_job


def test_the_plan(tool: Tool) -> None:
    """--dry-run: each number of vCPUs with each CPU and each set, the largest first; nothing is fetched or made."""
    words = ["--vcpus", "1,4", "--cpu", "max", "--cpu", "cortex-a76", "--workload", "young,fork_exec", "--workload"]
    done = tool("sweep", "--dry-run", "--json", "--repeat", "2", *words, "sleeper", "--append=-- x", LULL_QEMU="")
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    assert len(plan) == 8 and len({job["job"] for job in plan}) == 8
    assert plan[0]["job"] == "001-vcpus-4-max-young+fork_exec"
    assert plan[7]["job"] == "008-vcpus-1-cortex-a76-sleeper"
    for job in plan:  # what a job is said to be is what its run would do
        run = tool("run", "--dry-run", "--json", *job["words"])
        assert run.returncode == 0, run.stderr
        assert [boot["boot"] for boot in json.loads(run.stdout)] == job["boots"]
    assert not any(tool.cache.iterdir())
    shown = tool("sweep", "--dry-run", "--vcpus", "2").stdout
    assert "would run 001-vcpus-2, 40 boots: lull run --vcpus 2" in shown


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--vcpus", "1,two"], "not numbers"),
        (["--vcpus", "1,999"], "1 to"),
        (["--workload", "young", "--workload", "sleeper,young"], "in two jobs: young"),
        (["--workload", "young,agin"], "did you mean aging"),
        (["--workers", "0"], "at least one"),
        (["--workers", "-1", "--listen", "tcp://localhost:1"], "at least one"),
        (["--listen", "localhost:80"], "tcp://HOST:PORT"),
        (["--join", "tcp://localhost:99999"], "tcp://HOST:PORT"),
        (["--join", "tcp://localhost:1", "--listen", "tcp://localhost:1"], "not allowed with"),
        (["--timing", "nowhere"], "unknown timing model"),
        (["--repeat", "0"], "--repeat 0"),
    ],
)
def test_mistakes(tool: Tool, words: list[str], said: str) -> None:
    """Said before anything is fetched."""
    done = tool("sweep", "--offline", *words)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_without_its_packages(tool: Tool) -> None:
    """--offline and an empty cache: exit 7, and what to do."""
    done = tool("sweep", "--join", "tcp://127.0.0.1:1", "--offline")
    assert done.returncode == 7, done.stderr
    assert "run the same command once with a network" in done.stderr


def one_job(place: Path, vcpus: int, values: dict[str, float], cpu: str = "max") -> Path:
    """The folder of a complete job whose kernels each have one value."""
    records = [
        Record(kernel, "count", vcpus, "tlbi_broadcast_user", "count", (value, value), 10, "page")
        for kernel, value in values.items()
    ]
    place.mkdir()
    settings = {"qemu": "10.0.2", "machine": {"cpu": cpu, "vcpus": vcpus}}
    results = Results("0", "6.12", {"model": f"host of {place.name}", "cpus": 2}, records, settings=settings)
    (place / "results.json").write_text(results.to_json())
    (place / "complete").touch()
    return place


def test_a_ratio_is_of_one_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Jobs meet in one table for each CPU, and their numbers do not; what is not alike is not said of all."""
    places = [
        one_job(tmp_path / "a", 4, {"stock": 400, "lull": 4}),
        one_job(tmp_path / "b", 1, {"stock": 40, "lull": 4}),
        tmp_path / "nothing",
    ]
    (one,) = sweep_comparison.join(places, tmp_path)
    assert [(row.vcpus, row.effect.estimate) for row in one.comparison.rows] == [(1, 0.1), (4, 0.01)]
    assert one.results.host == {"cpus": 2}
    assert one.results.settings == {"qemu": "10.0.2", "machine": {"cpu": "max"}}
    assert Results.load(tmp_path / "results.json") == one.results

    places.append(one_job(tmp_path / "c", 4, {"stock": 40, "lull": 20}, cpu="cortex-a76,x=on"))
    runs = sweep_comparison.join(places, tmp_path)
    assert [run.path.name for run in runs] == ["results-max.json", "results-cortex-a76_x=on.json"]
    sweep_comparison.show(runs, [], tmp_path)
    shown = capsys.readouterr().out
    assert "cpu differs: A max; B cortex-a76,x=on" in shown
    lines = [line.split() for line in shown.splitlines() if line.startswith("count")]
    assert lines == [["count", "lull", "1", "0.100"], ["count", "lull", "4", "0.0100", "0.500"]]


def order(tmp_path: Path, giver: str) -> sweep_job.Order:
    """An order of a sweep in ``tmp_path``."""
    return sweep_job.Order("001-x", (), str(tmp_path / "sweep"), giver, "key")


def test_what_a_machine_sends_back(tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process runs in the cache, sends all back, and keeps what can be resumed only."""
    (tmp_path / "sweep/jobs/001-x").mkdir(parents=True)
    (tmp_path / "sweep/jobs/001-x/old").touch()

    def run(order: sweep_job.Order, sweep: Path) -> sweep_job.JobEnd:
        place = sweep_job.place_of(sweep, order.name)
        (place / "boots/r01").mkdir(parents=True, exist_ok=True)
        (place / "boots/r01/boot.json").write_text("{}")
        sweep_job.log_of(sweep, order.name).write_text("said\n")
        if complete:
            (place / "complete").touch()
        return sweep_job.JobEnd(order.name, 0 if complete else 4, 1.5)

    monkeypatch.setattr(sweep_job, "run", run)
    here = own_cache / "sweep/key/jobs/001-x"
    for complete in (False, True):
        done = sweep_job.perform(order(tmp_path, "another"))
        assert here.exists() is not complete
        sweep_job.take(done, tmp_path / "sweep")
        assert sweep_job.complete(tmp_path / "sweep", "001-x") is complete
        assert (tmp_path / "sweep/jobs/001-x/old").exists() is not complete, "a run of our own, to be resumed"
        assert (tmp_path / "sweep/jobs/001-x.broken/boots/r01/boot.json").exists()
    place = tmp_path / "sweep/jobs/001-x"
    assert {str(p.relative_to(place)) for p in place.rglob("*") if p.is_file()} == {"complete", "boots/r01/boot.json"}
    assert (tmp_path / "sweep/jobs/001-x.log").read_text() == "said\nsaid\n"
    assert not sweep_job.perform(order(tmp_path, sweep_job.HERE)).files


def test_only_the_same_lull_joins(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose sources differ is refused, before it takes a job; so is one that finds no sweep."""
    said: list[str | None] = []

    class Client(contextlib.AbstractContextManager["Client", None]):
        def __init__(self, address: str, timeout: float) -> None:
            assert (address, 0 < timeout <= sweep_engine.PATIENCE) == ("tcp://h:1", True)

        def __exit__(self, *error: object) -> None: ...

        def get_metadata(self, keys: list[str], default: None) -> str | None:
            return said.pop(0) if said else default

    engine = SimpleNamespace(Client=Client)
    address = sweep_engine.parse_address("tcp://h:1")
    monkeypatch.setattr(sweep_engine, "INTERVAL", 0.01)
    said[:] = [None, sweep_job.fingerprint()]
    sweep_engine.check_same(engine, address)
    said[:] = ["another"]
    with pytest.raises(UsageError, match="has other sources of Lull"):
        sweep_engine.check_same(engine, address)
    monkeypatch.setattr(sweep_engine, "PATIENCE", 0.1)
    with pytest.raises(LullError, match="no sweep at tcp://h:1"):
        sweep_engine.check_same(engine, address)


def test_a_job_whose_machines_were_lost(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It has an end of its own, not the tool's defect; what the tool does wrong is one."""

    class KilledWorker(Exception): ...

    def raising(error: Exception) -> SimpleNamespace:
        def result() -> None:
            raise error

        return SimpleNamespace(result=result)

    monkeypatch.setitem(sys.modules, "distributed", SimpleNamespace(KilledWorker=KilledWorker))
    done = sweep_engine.ended(raising(KilledWorker()), order(tmp_path, "mine"))
    assert done == sweep_job.JobEnd("001-x", sweep_engine.LOST, 0.0)
    again: list[bool] = []
    left = SimpleNamespace(result=raising(sweep_job.Stopped()).result, retry=lambda: again.append(True))
    assert sweep_engine.ended(left, order(tmp_path, "mine")) is None and again
    with pytest.raises(KeyError):
        sweep_engine.ended(raising(KeyError("a defect")), order(tmp_path, "mine"))


def test_addresses() -> None:
    """What --listen and --join take."""
    assert str(sweep_engine.parse_address("tls://host.example:8786")) == "tls://host.example:8786"
    for bad in ("host:80", "udp://h:80", "tcp://h", "tcp://h:0", "tcp:///h:80"):
        with pytest.raises(UsageError, match="is not an address"):
            sweep_engine.parse_address(bad)
