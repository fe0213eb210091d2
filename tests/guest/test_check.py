# SPDX-License-Identifier: GPL-2.0-only
"""The checker on real kernels: passed where nothing is wrong, and no mutant gets past it. Minutes."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from support import FACTS, SUMMARY, Tool, common, lab_under_test, newer_qemu, passes

from lull import base as bases
from lull import plan
from lull.check import data as check_data
from lull.check import kernels as check_kernels
from lull.guest.qemu import Machine, Qemu
from lull.guest.runner import launch_retrying
from lull.run.records import Results

BASE = bases.load_base()
MUTANTS = check_data.load_mutants(BASE.mutants)
SHOWN = {m.rules[0]: m.name for m in check_data.load_mutants(BASE.mutants, BASE).values()}.values()
"""One for each rule that is meant to catch any: the last, as Lull's own features come behind what stock has."""
LAB = (plan.LAB,) if plan.LAB in BASE.kernels else ()


KERNELS = tuple(word for kernel in (*BASE.default_kernels, *LAB) for word in ("--kernel", kernel))
FREES_TABLES = ("fork_exec", "sort_compute", "teardown_munmap", "swap_bench_shared", "mm_storm", "hvo_one")
"""Workloads that free page-table pages in most ways."""


@pytest.mark.bases
def test_kernels_pass(real: Tool) -> None:
    """Stock, lull and lab where there is one, as they boot, with every workload that is checked by default.

    On another base than the default only lull, because a kernel more to build takes CI five minutes.

    With FEAT_nTLBPA, for gather's threshold is judged, too: without the feature a freed table costs other CPUs all that
    they hold of the address space, and the threshold is missed (docs/results.md).
    """
    other = lab_under_test().base.name != bases.DEFAULT
    passes(real, *(("--kernel", "lull") if other else KERNELS), "--cpu", "max-ntlbpa")


@pytest.mark.bases
def test_shared_tables_are_flushed_at_exit(real: Tool) -> None:
    """Stock 7.3 flushes them too late; a check would call that a known issue, and not fail."""
    done = real("check", *common(), "--kernel", "lull", "--workload", "exit_shared")
    assert done.returncode == 0 and "exit-keeps-unshared" not in done.stdout, done.stdout


@pytest.mark.whole
@pytest.mark.bases
def test_lab_passes(real: Tool) -> None:
    """With every workload that is checked by default, on a machine on which Linux does not assume FEAT_nTLBPA."""
    passes(real, "--kernel", plan.LAB)


def test_kernels_pass_without_ntlbpa(real: Tool) -> None:
    """CPUs may keep copies of a freed table's entries by their physical addresses."""
    passes(real, *KERNELS, "--cpu", "max+nontlbpa", *(word for w in FREES_TABLES for word in ("--workload", w)))


@pytest.mark.parametrize("qemu", [newer_qemu], indirect=True, ids=["newer"])
def test_kernels_pass_in_a_newer_qemu(real: Tool, qemu: Qemu) -> None:
    """The plugin's other build, whose interface has other callbacks and registers."""
    real.environment["LULL_QEMU"] = str(qemu.program)
    passes(real, *KERNELS, "--workload", "fork_exec")


@pytest.mark.whole
def test_kernels_pass_under_each_policy(real: Tool) -> None:
    """Lull's that a workload names, too."""
    passes(real)


@pytest.mark.parametrize(
    "machines",
    [
        pytest.param(("--cpu", "cortex-a72+kpti+asid8", "--cpu", "neoverse-n2+nokpti"), id="two"),
        pytest.param(("--machines",), id="all", marks=pytest.mark.whole),
    ],
)
def test_stock_passes_on_machines(real: Tool, machines: tuple[str, ...]) -> None:
    """Each CPU, with 16- and 8-bit ASIDs, KPTI on and off; what flushes in most ways, for it is 28 boots."""
    workloads = ("mm_storm", "swap_bench", "fork_exec")
    passes(real, "--kernel", "stock", *machines, *(word for w in workloads for word in ("--workload", w)))


@pytest.mark.bases(whole=True)
@pytest.mark.parametrize("more", [(), ("--asid-bits", "8", "--cpu", "max+ntlbpa")], ids=["max", "asid8-ntlbpa"])
def test_storms_pass(real: Tool, more: tuple[str, ...]) -> None:
    """Residency while CPUs go and come, and while its policy changes."""
    passes(real, "--kernel", plan.LAB, "--workload", "storm_hotplug", "--workload", "storm_policies", *more)


@pytest.mark.bases(whole=True)
@pytest.mark.parametrize(
    ("kernel", "cpu"),
    [
        (plan.LAB, "max"),
        pytest.param("lull", "cortex-a76", marks=pytest.mark.whole),
        ("lull", "neoverse-n2"),
    ],
)
def test_batch_storm_passes(real: Tool, kernel: str, cpu: str) -> None:
    """Reclaim against those who change the same memory, and memory torn down in pieces.

    With TLB ranges, without, and with both them and the workaround that repeats each broadcast.
    """
    passes(real, "--kernel", kernel, "--workload", "batch_storm", "--cpu", cpu)


@pytest.mark.parametrize(
    ("kernel", "storm"),
    [
        ("lull", "file_crowd"),
        pytest.param("lab", "file_hotplug", marks=pytest.mark.whole),
        pytest.param("stock", "file_device", marks=pytest.mark.whole),
    ],
)
def test_files_pass(real: Tool, kernel: str, storm: str) -> None:
    """Pages of files that are written through mappings while they are cleaned, written back, reclaimed and moved."""
    passes(real, "--kernel", kernel, "--workload", storm)


USUAL = ("storm_migrate", "storm_reclaim")
"""The storms with features off that find most."""


@pytest.mark.bases(whole=True)
@pytest.mark.parametrize(
    ("settings", "storm"),
    [
        pytest.param(policy, storm, marks=[] if storm in USUAL else pytest.mark.whole)
        for name, feature in FACTS.items()
        for kind, policy in (("storms", f"only={name}"), ("storms_off", f"{name}=off"))
        for storm in feature.get(kind, ())
    ],
)
def test_storms_pass_with_features_off(real: Tool, settings: str, storm: str) -> None:
    """One feature may hide a bug of another."""
    passes(real, "--kernel", f"{plan.LAB}+{settings}", "--workload", storm)


@pytest.mark.bases(whole=True)
@pytest.mark.parametrize("cpu", [pytest.param("max", marks=pytest.mark.whole), "cortex-a76+kpti"])
def test_hvo_passes(real: Tool, cpu: str, tmp_path: Path) -> None:
    """Entries of the vmemmap changed while all CPUs run; with TLB ranges, and without. The checker has seen it."""
    out = tmp_path / "out"
    passes(real, "--kernel", plan.LAB, "--workload", "hvo_one", "--cpu", cpu, "--out", str(out))
    (boot,) = json.loads((out / "check.json").read_text())["boots"]
    assert boot["seen"]["repointed"] >= 4


@pytest.mark.whole
@pytest.mark.parametrize("kernel", ["kunit16k", "kunit64k"])
def test_hvo_with_other_pages_passes(real: Tool, kernel: str, tmp_path: Path) -> None:
    """Pools of HugeTLB pages that give back struct pages, on kernels with pages of 16 and 64 KiB."""
    out = tmp_path / "out"
    words = ("--workload", "hvo_hammer", "--append", "kunit.enable=0", "--out", str(out))
    passes(real, "--kernel", kernel, *words)
    (boot,) = json.loads((out / "check.json").read_text())["boots"]
    assert boot["status"] == {"1": 0} and boot["seen"]["repointed"] >= 6


def test_what_tlbis_take(real: Tool, tmp_path: Path) -> None:
    """A flush of the whole ASID costs threads what they read beside it; one of the page that changed, nothing."""
    out = tmp_path / "out"
    passes(
        real, "--kernel", "stock", "--workload", "storm_pieces", "--workload", "mprotect_threaded", "--out", str(out)
    )
    results = Results.load(out / "results.json")
    lost = {r.workload: r.values[0] for r in results.find(metric="tlb_over_invalidated_others")}
    assert lost["storm_pieces/pieces"] > 50
    assert lost["mprotect_threaded"] < 50
    refills = {r.workload: r.values[0] for r in results.find(metric="tlb_refills_unchanged")}
    assert refills["storm_pieces/pieces"] > 50
    assert refills["mprotect_threaded"] < 50
    (held,) = (r.values[0] for r in results.find(metric="tlb_held", workload="mprotect_threaded"))
    assert held > 0


@pytest.mark.bases(whole=True)
@pytest.mark.parametrize(
    "name", [name if name in SHOWN else pytest.param(name, marks=pytest.mark.whole) for name in MUTANTS]
)
def test_mutant(real: Tool, name: str, tmp_path: Path) -> None:
    """Caught by the rule that is meant for it, in one of six boots: some need two CPUs to be in a race.

    Beside another guest, runs-drop and runs-short were missed in 5 of 16 boots; alone, in none of 6.
    """
    base = lab_under_test().base
    if name not in check_data.load_mutants(base.mutants, base):
        pytest.skip(f"base {base.name} does not have this mutant")
    for boot in range(1, 7):
        out = tmp_path / str(boot)
        done = real("check", *common(), "--mutant", name, "--out", str(out))
        scores = json.loads((out / "check.json").read_text())["mutants"] if (out / "check.json").exists() else []
        for score in scores:
            how = "caught" if score["as_meant"] == score["boots"] else "NOT CAUGHT AS MEANT"
            seen = ", ".join(score["seen"]) or "nothing"
            SUMMARY.append(f"mutant {name}: {how} in boot {boot} by {score['meant']}; seen: {seen}")
        if done.returncode == 0:
            break
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


def test_8_bit_asids(tmp_path: Path) -> None:
    """The copy of the stock image has 256 ASIDs, and is the stock image but for an instruction."""
    lab = lab_under_test()
    kernel = check_kernels.of_base(lab, "stock")
    narrow = kernel.patched(narrow=True, sme=False)
    words = zip(kernel.image.read_bytes(), narrow.read_bytes(), strict=True)
    assert 1 <= sum(a != b for a, b in words) <= 4
    guest = lab.guest_of(narrow, Machine(vcpus=2), "", None)
    guest.arguments = guest.arguments.replace("quiet loglevel=4", "loglevel=7")
    launch_retrying(guest, "true\n", tmp_path / "boot", job_seconds=lambda n: 60, tell=print, say=print)
    assert "ASID allocator initialised with 256 entries" in (tmp_path / "boot/console.log").read_text(errors="replace")


CLOUD = "6.1-cloud-arm64"
"""The smallest and oldest kernel of Debian's: 21 MB, with KASLR and KPTI, and no symbols of data."""


def test_a_kernel_of_debians(real: Tool, tmp_path: Path) -> None:
    """As it comes, by name and as a file: symbols are read from the image, names of code are right, and it passes.

    With KASLR it runs elsewhere than its symbols say.
    """
    done = real(
        "check", "--debian", CLOUD, "--workload", "fork_exec", "--cpu", "max+kpti", "--out", str(tmp_path / "a")
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "not checked, for lack of a symbol: pending/rmap (no tlb_flush_rmaps)" in done.stdout
    boot = next((tmp_path / "a/boots").iterdir())
    slides = [json.loads(line) for line in (boot / "reports.jsonl").read_text().splitlines() if '"slide"' in line]
    assert int(slides[-1]["slide"], 16) % 65536 == 0 and int(slides[-1]["slide"], 16)
    image = check_kernels.of_debian(lab_under_test(), CLOUD).image
    packed = tmp_path / "vmlinuz.gz"
    packed.write_bytes(gzip.compress(image.read_bytes(), 1))
    done = real("check", str(packed), "--workload", "fork_exec", "--out", str(tmp_path / "b"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "vmlinuz.gz on max" in done.stdout


def test_symbols_are_found_in_the_stock_kernel(real: Tool, tmp_path: Path) -> None:
    """Each function is there, or the checker would not see it."""
    done = real("check", "--kernel", "stock", "--workload", "fork_exec", "--out", str(tmp_path / "out"))
    assert done.returncode == 0 and "not checked" not in done.stdout, done.stdout
