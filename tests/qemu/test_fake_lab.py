# SPDX-License-Identifier: GPL-2.0-only
"""The whole lab on a fake kernel under real QEMU: build, boot, count, compare, and everything that can go wrong."""

from __future__ import annotations

import json
import lzma
import os
import re
import shutil
import signal
import stat
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from support import FAKE, Tool

Fake = Callable[..., CompletedProcess[str]]


def records(folder: Path) -> dict[tuple[str, str], list[float]]:
    """(kernel, metric) -> values of the count workload."""
    raw = json.loads((folder / "results.json").read_text())
    return {(r["kernel"], r["metric"]): r["values"] for r in raw["records"] if r["workload"] == "count"}


def test_run_by_function(fake: Fake, tmp_path: Path) -> None:
    """The functions of a case add up to its instructions, and one of them is what is counted apart."""
    out = tmp_path / "out"
    done = fake("run", "--functions", "--kernel", "stock", "--kernel", "lull", "--repeat", "1", "--out", str(out))
    assert done.returncode == 0, done.stderr
    found = records(out)
    for one in json.loads((out / "results.json").read_text())["functions"]:
        assert (one["workload"], one["metric"]) == ("count", "insns_own")
        assert sum(one["counts"].values()) == found[one["kernel"], "insns_own"][0]
        spinning = {name: n for name, n in one["counts"].items() if name.startswith("queued_spin_lock")}
        assert list(spinning.values()) == found[one["kernel"], "insns_spin_own"] == [2002]
    assert "instructions of count by function (insns_own)" in done.stdout and "difference" in done.stdout
    assert "queued_spin_lock_slowpath" in (out / "functions.md").read_text()
    options = (out / "boots/r01-stock/command.txt").read_text()
    assert ",functions=" in options


def test_run_counts_and_compares(fake: Fake, tmp_path: Path) -> None:
    """Two kernels, two repeats and the control: counts are exact, and the feature is seen."""
    out = tmp_path / "out put"  # a path with a space
    done = fake("run", "--repeat", "2", "--out", str(out))
    assert done.returncode == 0, done.stderr
    found = records(out)
    assert found["stock", "tlbi_broadcast_user"] == [40, 40]
    assert found["stock.control", "tlbi_broadcast_user"] == [40, 40]
    assert found["lull", "tlbi_broadcast_user"] == [4, 4]
    assert found["lull", "tlbi_broadcast_kernel"] == [1, 1]
    assert found["stock", "dsb_ish"] == [3, 3]
    assert found["stock", "dsb_ishst"] == [2, 2]
    assert found["stock", "faults"] == [7, 7]
    assert found["stock", "insns_spin"] == found["lull", "insns_spin_own"] == [2002, 2002]
    assert "tlbi_broadcast_user" in done.stdout
    verdicts = Counter(c["verdict"] for c in json.loads((out / "results.json").read_text())["checks"])
    last = f"verdict: {verdicts['passed']} checks passed, 0 failed, {verdicts['skipped']} not judged"
    assert done.stdout.splitlines()[-1] == last and verdicts["passed"] > 2
    assert "nothing will be compared" not in done.stderr and "running 6 guests, 4 vCPUs" in done.stderr
    for name in (
        "results.json",
        "comparison.md",
        "report.html",
        "config-stock",
        "boots/r01-stock/console.log",
        "boots/r01-stock/command.txt",
    ):
        assert (out / name).exists()


def test_a_workload_with_a_kernel_memory_and_parameters_of_its_own(fake: Fake, tmp_path: Path) -> None:
    """It runs there, and kernels that the base does not have are left out; other boots have the usual memory."""
    out = tmp_path / "out"
    done = fake("run", "--repeat", "1", "--workload", "large", "--workload", "count", "--out", str(out))
    assert done.returncode == 0, done.stderr
    sizes = {boot.name: (boot / "command.txt").read_text() for boot in (out / "boots").iterdir()}
    own = "r01-lab-fake_size_large"
    assert set(sizes) == {"r01-stock", "r01-lull", own, "r01-stock.control"}
    assert [name for name, command in sizes.items() if "3072M" in command and "fake_size=large" in command] == [own]
    assert all("2048M" in command and "fake_size" not in command for name, command in sizes.items() if name != own)
    raw = json.loads((out / "results.json").read_text())
    assert {r["workload"] for r in raw["records"] if r["kernel"] == "lab"} == {"large"}


def test_a_run_of_an_image_of_your_own(fake: Fake, tool: Tool, tmp_path: Path) -> None:
    """Beside stock, under the name of its file, compressed; it is the kernel with the feature, from its kept folder."""
    assert fake("build", "--kept", "--kernel", "lull").returncode == 0
    kept = tool.cache / "kept/fake-lull"
    (tmp_path / "Image").write_bytes(lzma.compress((kept / "Image").read_bytes()))  # as QEMU does not boot it
    own = ["--image", str(tmp_path / "Image"), "--symbols", str(kept / "System.map")]
    done = fake("run", "--repeat", "1", "--workload", "count", *own, "--out", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    found = records(tmp_path / "out")
    assert (found["stock", "tlbi_broadcast_user"], found["Image", "tlbi_broadcast_user"]) == ([40], [4])
    assert ("lull", "tlbi_broadcast_user") not in found


def test_results_go_to_a_new_folder_by_default(fake: Fake, tmp_path: Path) -> None:
    """results/001, then 002; an unfinished one of the same plan is taken up."""
    for name in ("001", "002"):
        done = fake("run", "--repeat", "1")
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "results" / name / "results.json").exists()
    (tmp_path / "results/002/complete").unlink()
    assert fake("run", "--repeat", "1").returncode == 0
    assert not (tmp_path / "results/003").exists()


def test_a_second_run_builds_nothing(fake: Fake, tmp_path: Path) -> None:
    """What is in the cache is used."""
    assert fake("run", "--repeat", "1", "--out", str(tmp_path / "a")).returncode == 0
    again = fake("run", "--repeat", "1", "--out", str(tmp_path / "b"))
    assert again.returncode == 0
    assert "building" not in again.stderr


@pytest.mark.parametrize(
    ("workload", "code", "words"),
    [
        ("panic", 4, "fake trouble"),
        ("memory", 4, "out of memory"),
        ("garbage", 6, "broke its protocol"),
        ("halfway", 6, "without a report"),
        ("hang", 5, "hung"),
    ],
)
def test_a_guest_in_trouble(fake: Fake, tmp_path: Path, workload: str, code: int, words: str) -> None:
    """Each kind of trouble has its exit code, its words, and the log's place."""
    done = fake("run", "--kernel", "stock", "--workload", workload, "--out", str(tmp_path / "out"))
    assert done.returncode == code, done.stderr
    assert words in done.stderr
    assert "where: " in done.stderr
    assert (tmp_path / "out/boots/r01-stock/console.log").exists()


def test_a_failing_workload_is_a_failed_check(fake: Fake, tmp_path: Path) -> None:
    """A workload that ends with another status: exit 1, and the rest is kept."""
    done = fake("run", "--kernel", "stock", "--workload", "fail", "--workload", "count", "--out", str(tmp_path / "o"))
    assert done.returncode == 1 and ", 1 failed, " in done.stdout.splitlines()[-1]
    checks = json.loads((tmp_path / "o/results.json").read_text())["checks"]
    assert [c["verdict"] for c in checks if c["name"] == "verified: fail on stock"] == ["failed"]
    assert [c["verdict"] for c in checks if c["name"] == "verified: count on stock"] == ["passed"]


def test_a_workload_this_kernel_cannot_run_is_skipped(fake: Fake, tmp_path: Path) -> None:
    """Status 77 is neither passed nor failed."""
    done = fake("run", "--kernel", "stock", "--workload", "missing", "--out", str(tmp_path / "o"))
    assert done.returncode == 0, done.stderr
    checks = json.loads((tmp_path / "o/results.json").read_text())["checks"]
    assert {"skipped"} == {c["verdict"] for c in checks if c["name"].startswith("verified")}


def test_an_interrupted_run_resumes(fake: Fake, tool: Tool, fake_tree: Path, tmp_path: Path) -> None:
    """Ctrl-C between boots: exit 130; the same command takes up where it was, with the same numbers."""
    out = tmp_path / "out"
    common = ["--base", str(FAKE / "bases/fake.toml"), "--tree", str(fake_tree), "--offline"]
    child = tool.start("run", *common, "--repeat", "4", "--out", str(out))
    first = out / "boots/r01-stock/boot.json"
    limit = time.monotonic() + 60
    while not (out / "results.json").exists() and time.monotonic() < limit:
        time.sleep(0.02)
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=30)
    assert child.returncode == 130, errors
    assert "resumes" in errors
    assert not (out / "complete").exists()
    assert tool("report", str(out)).returncode == 0
    assert re.search(r"Interrupted, or still running: \d of 12 boots</h1>", (out / "report.html").read_text())
    written = first.stat().st_mtime_ns
    again = fake("run", "--repeat", "4", "--out", str(out))
    assert again.returncode == 0, again.stderr
    assert first.stat().st_mtime_ns == written
    assert " kept from before" in again.stderr
    assert records(out)["stock", "tlbi_broadcast_user"] == [40] * 4
    assert "Interrupted, or" not in (out / "report.html").read_text()
    assert json.loads((out / "results.json").read_text())["settings"]["boots"] == "12 of 12"


def test_an_interrupted_build_leaves_nothing_half(fake: Fake, tool: Tool, fake_tree: Path) -> None:
    """Ctrl-C while the compiler runs: no entry is published, and the next build completes."""
    slow = fake_tree / "Makefile"
    slow.write_text(
        slow.read_text().replace('\t@echo "  CC      init/main.o"', '\t@echo "  CC      init/main.o"; sleep 8')
    )
    common = ["--base", str(FAKE / "bases/fake.toml"), "--tree", str(fake_tree), "--offline"]
    child = tool.start("build", *common, "--kernel", "stock")
    limit = time.monotonic() + 60
    while not list(tool.cache.glob("build/stock-*.part/linux/objects/.config")) and time.monotonic() < limit:
        time.sleep(0.02)
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=30)
    assert child.returncode == 130
    assert not [p for p in tool.cache.glob("build/stock-*") if p.suffix not in (".part", ".log")]
    assert fake("build", "--kernel", "stock").returncode == 0


def test_two_runs_share_a_cache(fake: Fake, tool: Tool, fake_tree: Path, tmp_path: Path) -> None:
    """Two runs at once: one makes each entry, the other waits for it, both succeed."""
    common = ["--base", str(FAKE / "bases/fake.toml"), "--tree", str(fake_tree), "--offline", "--repeat", "1"]
    one = tool.start("run", *common, "--out", str(tmp_path / "one"))
    two = tool.start("run", *common, "--out", str(tmp_path / "two"))
    errors = [child.communicate(timeout=120)[1] for child in (one, two)]
    assert [one.returncode, two.returncode] == [0, 0], errors
    assert records(tmp_path / "one")["lull", "tlbi_broadcast"] == records(tmp_path / "two")["lull", "tlbi_broadcast"]


def test_a_tree_the_hook_does_not_fit_is_refused(fake: Fake, fake_tree: Path) -> None:
    """File, hunk and remedy are named, and the tree stays byte for byte what it was."""
    source = fake_tree / "init/main.c"
    source.write_text(source.read_text().replace("BROADCASTS\t40", "BROADCASTS\t41"))
    before = {p: p.read_bytes() for p in fake_tree.rglob("*") if p.is_file()}
    done = fake("build", "--kernel", "lull")
    assert done.returncode == 9
    assert "init/main.c, hunk 1" in done.stderr
    assert f"{fake_tree} is unchanged" in done.stderr
    assert "to do: " in done.stderr
    assert before == {p: p.read_bytes() for p in fake_tree.rglob("*") if p.is_file()}


def test_the_users_tree_may_have_spaces_and_builds_in_it(
    fake: Fake, tool: Tool, fake_tree: Path, tmp_path: Path
) -> None:
    """--tree with a space in its path, already built in: copied, and neither changed nor built in."""
    odd = fake_tree.rename(tmp_path / "my linux")
    (odd / ".config").write_text("CONFIG_FAKE=y\n")
    done = tool("build", "--base", str(FAKE / "bases/fake.toml"), "--tree", str(odd), "--offline", "--kernel", "stock")
    assert done.returncode == 0, done.stderr
    assert (odd / ".config").exists()
    assert not (odd / "arch").exists()


def test_a_tree_of_another_series_is_refused(fake: Fake, fake_tree: Path) -> None:
    """6.13 is not 6.12."""
    makefile = fake_tree / "Makefile"
    makefile.write_text(makefile.read_text().replace("PATCHLEVEL = 12", "PATCHLEVEL = 13"))
    done = fake("build", "--kernel", "stock")
    assert done.returncode == 2
    assert "6.13" in done.stderr


def test_a_build_error_leaves_its_log(fake: Fake, fake_tree: Path) -> None:
    """Exit 3, the compiler's words, and a log that is still there."""
    source = fake_tree / "init/main.c"
    source.write_text(source.read_text() + "\nthis is no C\n")
    done = fake("build", "--kernel", "stock")
    assert done.returncode == 3
    assert "this is no C" in done.stderr
    log = next(line for line in done.stderr.splitlines() if "where: " in line).split("where: ")[1].split(" ($")[0]
    assert "this is no C" in Path(log).read_text()


def test_a_dropped_option_is_named(fake: Fake) -> None:
    """A fragment's option that Kconfig drops stops the build."""
    done = fake("build", "--kernel", "wrong")
    assert done.returncode == 3
    assert "CONFIG_NO_SUCH_THING=y" in done.stderr


def test_disk_full_while_building(fake: Fake, fake_tree: Path) -> None:
    """A compiler that meets a full disk: exit 8, not a build error."""
    makefile = fake_tree / "Makefile"
    makefile.write_text(
        makefile.read_text().replace(
            '\t@echo "  CC      init/main.o"', '\t@echo "cc1: No space left on device"; exit 1'
        )
    )
    done = fake("build", "--kernel", "stock")
    assert done.returncode == 8, done.stderr
    assert "resumes" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_a_small_disk(fake: Fake, tool: Tool) -> None:
    """A real file system without room: refused before the work begins."""
    small = tool.cwd / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", small], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("mounting is not allowed here")
    try:
        shutil.copy(tool.cache / "fetched.json", small)
        done = fake("build", "--kernel", "stock", LULL_CACHE=str(small))
    finally:
        subprocess.run(["umount", small], check=True)
    assert done.returncode == 8, done.stderr
    assert "GiB are free" in done.stderr and "LULL_CACHE" in done.stderr


def test_a_cache_that_cannot_be_written(fake: Fake, tool: Tool) -> None:
    """Exit 2 and the variable that names another; root may write everywhere, so a file stands in the way."""
    place = tool.cwd / "file"
    place.write_text("")
    done = tool(
        "build",
        "--base",
        str(FAKE / "bases/fake.toml"),
        "--tree",
        str(tool.cwd / "linux"),
        "--offline",
        LULL_CACHE=str(place / "cache"),
    )
    assert done.returncode == 2
    assert "LULL_CACHE" in done.stderr


def test_qemu_absent_old_or_broken(fake: Fake, tool: Tool, fake_tree: Path) -> None:
    """A named QEMU that is too old or does not run is refused with what to do; none at all, too."""
    common = ["run", "--base", str(FAKE / "bases/fake.toml"), "--tree", str(fake_tree), "--offline"]
    old = tool.cwd / "qemu-old"
    old.write_text("#!/bin/sh\necho 'QEMU emulator version 7.2.0 (Debian)'\n")
    old.chmod(old.stat().st_mode | stat.S_IXUSR)
    done = tool(*common, LULL_QEMU=str(old))
    assert done.returncode == 3, done.stderr
    assert "7.2.0" in done.stderr and "too old" in done.stderr
    old.write_text(old.read_text().replace("7.2.0", "12.0.0"))
    done = tool(*common, LULL_QEMU=str(old))
    assert done.returncode == 3, done.stderr
    assert "too new" in done.stderr and "10.x or 11.x is needed" in done.stderr
    gone = tool(*common, LULL_QEMU=str(tool.cwd / "nowhere"))
    assert gone.returncode == 3
    bare = tool(*common, LULL_QEMU="", PATH=path_without("qemu-system-aarch64"))
    assert bare.returncode == 3
    assert "lull fetch" in bare.stderr


def path_without(program: str) -> str:
    """PATH without the folders that have ``program``."""
    return ":".join(p for p in os.environ["PATH"].split(":") if not (Path(p) / program).exists())


def test_without_a_baseline(fake: Fake, tmp_path: Path) -> None:
    """It is said at the start that there will be no comparison; what is in the cache, by --dry-run."""
    words = ["run", "--kernel", "lull", "--repeat", "1", "--vcpus", "1", "--out", str(tmp_path / "out")]
    assert "lull (to be built)" in fake(*words, "--dry-run").stdout
    done = fake(*words)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("nothing will be compared: stock is not among the kernels (add --kernel stock)\n")
    assert "running 1 guest, 1 vCPU ..." in done.stderr
    shown = fake(*words, "--dry-run").stdout
    assert "lull (in the cache)" in shown and "linux (in the cache)" in shown


def test_who_was_told_to_ignore_a_lost_terminal(fake: Fake, tool: Tool, fake_tree: Path, tmp_path: Path) -> None:
    """As nohup tells: SIGHUP in the midst of a run changes nothing."""
    assert fake("build").returncode == 0
    common = ["--base", str(FAKE / "bases/fake.toml"), "--tree", str(fake_tree), "--offline"]
    out = tmp_path / "out"
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        child = tool.start("run", *common, "--repeat", "3", "--out", str(out))
    finally:
        signal.signal(signal.SIGHUP, before)
    limit = time.monotonic() + 60
    while not (out / "boots/r01-stock/boot.json").exists() and time.monotonic() < limit:
        time.sleep(0.02)
    child.send_signal(signal.SIGHUP)
    _, errors = child.communicate(timeout=60)
    assert child.returncode == 0 and (out / "complete").exists(), errors


def test_many_vcpus_under_one_thread_never_happen(fake: Fake, tmp_path: Path) -> None:
    """16 vCPUs: the fake kernel runs on one of them, the plugin counts all."""
    out = tmp_path / "out"
    done = fake("run", "--kernel", "stock", "--vcpus", "16", "--out", str(out), "--repeat", "1")
    assert done.returncode == 0, done.stderr
    assert records(out)["stock", "tlbi_broadcast_user"] == [40]


def test_results_of_another_plan_are_not_overwritten(fake: Fake, tmp_path: Path) -> None:
    """--out with another run in it, or with foreign files, is refused."""
    out = tmp_path / "out"
    assert fake("run", "--repeat", "1", "--out", str(out)).returncode == 0
    other = fake("run", "--repeat", "2", "--out", str(out))
    assert other.returncode == 2
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/file").write_text("mine")
    assert fake("run", "--repeat", "1", "--out", str(tmp_path / "mine")).returncode == 2
    assert (tmp_path / "mine/file").read_text() == "mine"
