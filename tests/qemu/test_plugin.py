# SPDX-License-Identifier: GPL-2.0-only
"""The plugin in a real QEMU, under programs whose every instruction is known."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from plugin_tools import CHECKER, HERE, run
from test_decode import DSB, DSB_NXS, EL1, EL2, TLBI, by_name, nxs_words

from lull.check import package
from lull.guest.qemu import Qemu

# What bare.S executes around BODY: instructions of its macros and handler.
APART = 0x40180000  # where a body's section .apart goes
CLOSE_MOV = 1  # close_window: the mov; the marker itself is outside
HANDLER = 4
SECONDARY = 9 + 2 + 5  # set_up, the flag, PSCI CPU_OFF
OPERAND = {"user": "x10", "kernel": "x11", "range kernel": "x12"}
LOAD_OPERANDS = """
    const64 x10, 0x0005000000001234
    const64 x11, 0x00050fffffff1234
    const64 x12, 0x0005001000001234
"""

# Keys that follow from the state of the CPU, not only from what is executed.
VIRTUAL = ("tlbi_forced", "tlbi_hyp", "tlbi_guest")

Bare = Callable[..., list[dict[str, Any]]]


def boot(
    tmp: Path,
    gcc: str,
    qemu: Qemu,
    body: str,
    plugin: str,
    *options: str,
    secondary: str = "",
    cpus: int = 1,
    el2: bool = False,
    timeout: float = 60,
) -> subprocess.CompletedProcess[str]:
    """Assemble bare.S around body and run it to its power-off."""
    (tmp / "body.S").write_text(body + "\n")
    (tmp / "secondary.S").write_text(secondary + "\n")
    run(
        gcc, "-nostdlib", "-static", "-Wl,-Ttext=0x40100000", f"-Wl,--section-start=.apart={APART:#x}",
        f"-DCPUS={cpus}",
        f'-DBODY="{tmp / "body.S"}"', f'-DSECONDARY="{tmp / "secondary.S"}"',
        *(["-DEL2"] if el2 else []), HERE / "bare.S", "-o", tmp / "bare.elf",
    )  # fmt: skip
    machine = "virt,gic-version=3" + (",virtualization=on" if el2 else "")
    return subprocess.run(
        [
            str(qemu.program), "-M", machine, "-cpu", "max", "-smp", str(cpus), "-nic", "none",
            "-display", "none", "-serial", "none", "-monitor", "none",
            "-kernel", str(tmp / "bare.elf"), "-plugin", plugin, *options,
        ],
        capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL,
    )  # fmt: skip


@pytest.fixture
def bare(build: Callable[[str], Path], gcc: str, qemu: Qemu, tmp_path: Path) -> Bare:
    """Runs a body that must end well; the lines the plugin wrote."""

    def go(
        body: str,
        insns: str = "segment",
        skip: Sequence[str] = (),
        costs: Mapping[str, str] = {},
        functions: Sequence[int] = (),
        **more: Any,
    ) -> list[dict[str, Any]]:
        out = tmp_path / "counts"
        words = [f"skip={s}" for s in skip] + [f"cost={name}:{ns}" for name, ns in costs.items()]
        if functions:
            (tmp_path / "functions").write_text("".join(f"{start:x}\n" for start in functions))
            words.append(f"functions={tmp_path / 'functions'}")
        plugin = ",".join([f"{build(qemu.plugin)},mode=count,out={out},insns={insns}", *words])
        done = boot(tmp_path, gcc, qemu, body, plugin, **more)
        assert (done.returncode, done.stderr) == (0, "")
        return [json.loads(line) for line in out.read_text().splitlines()]

    return go


def tlbi_lines(names: list[str], class_of: Callable[[str, str], str]) -> tuple[str, int, Counter[str]]:
    """A different number of each form with each operand; instructions; what must be counted."""
    nxs = nxs_words()
    lines, total = [], 0
    want: Counter[str] = Counter()
    for i, name in enumerate(names):
        what, ranged = by_name(name)[1], by_name(name)[4]
        for kind in ("user", "kernel") if what == "va" else ("user",):
            times = 1 + (7 * i + (kind == "kernel")) % 13
            reg = OPERAND["range kernel" if ranged and kind == "kernel" else kind]
            if name in nxs:  # not all assemblers know these
                instruction = f".inst {(nxs[name] & ~31) | (31 if what == 'all' else int(reg[1:])):#x}"
            else:
                instruction = f"tlbi {name}" + ("" if what == "all" else f", {reg}")
            lines.append(f".rept {times}\n{instruction}\n.endr")
            want[f"{name}/{class_of(name, kind)}"] += times
            total += times
    return "\n".join(lines), total, want


def el1_class(name: str, kind: str) -> str:
    """What the contract says of each form."""
    what, el = by_name(name)[1:3]
    if what == "va":
        return kind if el == 1 else "other"
    return {"all": "all", "asid": "user", "vaa": "kernel", "ipa": "other"}[what]


def check_totals(line: dict[str, Any]) -> None:
    """The totals follow from the vCPUs' own numbers."""
    total = line["total"]
    sums: Counter[str] = Counter()
    for cpu in line["cpus"]:
        sums["insns"] += cpu["insns"]
        sums["insns_spin"] += cpu["insns_spin"]
        sums["atomics"] += cpu["atomics"]
        # every program here opens its windows on the first vCPU; the whole run is nobody's
        if cpu["cpu"] == 0 and line["window"] != "whole-run":
            sums["insns_own"] += cpu["insns"]
            sums["insns_spin_own"] += cpu["insns_spin"]
            sums["atomics_own"] += cpu["atomics"]
            sums["waits_own"] += cpu["dsb"].get("ish", 0)
        sums["ipi"] += cpu["ipi"]
        sums["ipi_all"] += cpu["ipi_all"]
        sums["ic_broadcast"] += cpu["ic_broadcast"]
        for key, n in cpu["dsb"].items():
            sums[f"dsb_{key}"] += n
        for key, n in cpu["tlbi"].items():
            name, cls = key.split("/")
            kind = "local" if by_name(name)[0] == "local" else "broadcast"
            sums[f"tlbi_{kind}"] += n
            sums[f"tlbi_{cls}"] += n
            sums[f"tlbi_{kind}_{cls}"] += n
            sums["tlbi_range"] += n * by_name(name)[4]
            sums["tlbi_asid"] += n * (by_name(name)[1] == "asid")
    executed = {k: v for k, v in total.items() if v and not k.startswith(VIRTUAL)}
    assert executed == {k: v for k, v in sums.items() if v}
    assert {f"dsb_{k}" for k in DSB + DSB_NXS} <= set(total)


def test_every_el1_tlbi(bare: Bare, qemu: Qemu) -> None:
    names = EL1 + [n + "nxs" for n in EL1]
    body, insns, want = tlbi_lines(names, el1_class)
    header, window, whole = bare(f"{LOAD_OPERANDS}\nopen_window 7\n{body}\nclose_window 7")
    assert header.pop("api") in (range(4, 7) if qemu.plugin == "lull.so" else (7,))
    assert header == {"plugin": "lull", "version": package.version(), "mode": "count", "vcpus_max": 1}
    assert (window["window"], window["seq"]) == (7, 1)
    assert window["cpus"][0]["tlbi"] == dict(want)
    assert window["total"]["insns"] == insns + CLOSE_MOV
    assert (whole["window"], whole["seq"]) == ("whole-run", 2)
    assert whole["cpus"][0]["tlbi"] == dict(want)
    check_totals(window)
    check_totals(whole)


def test_every_el2_tlbi(bare: Bare) -> None:
    """At EL2, where EL1's forms can be executed as well."""
    names = EL2 + [n + "nxs" for n in EL2] + EL1
    body, insns, want = tlbi_lines(names, el1_class)
    _, window, _ = bare(f"{LOAD_OPERANDS}\nopen_window 7\n{body}\nclose_window 7", el2=True)
    assert window["cpus"][0]["tlbi"] == dict(want)
    assert window["total"]["insns"] == insns + CLOSE_MOV
    assert window["total"]["tlbi_other"] > 0
    check_totals(window)


# HCR_EL2: EL1 is 64-bit; a guest has the CPU; force broadcast; EL0 is the host's; EL2 has a kernel.
RW, VM, FB, TGE, E2H = 1 << 31, 1 << 0, 1 << 9, 1 << 27, 1 << 34
GUEST = RW | VM
BROADCAST, LOCAL, FORCED = "broadcast", "local", "forced"


def of_guest(kind: str, user: int, other: int = 0) -> dict[str, int]:
    """The keys of a guest in the plugin's output, if it executed nothing that goes further or less far."""
    keys = {f"{name}{kind}": 0 for name in (LOCAL, BROADCAST, FORCED) for kind in ("", "_user")}
    return {**keys, kind: user + other, f"{kind}_user": user}


@pytest.mark.parametrize(("hcr", "kind"), [(GUEST, LOCAL), (GUEST | FB, FORCED), (GUEST | FB | E2H, FORCED)])
def test_a_guests_local_tlbis(bare: Bare, hcr: int, kind: str) -> None:
    """Local ones are broadcasts if HCR_EL2.FB is set; all forms, of the guest that has the CPU."""
    names = [n for n in EL1 if by_name(n)[0] == "local"]
    body, insns, want = tlbi_lines(names, el1_class)
    text = f"{LOAD_OPERANDS}\nas_guest 5, {hcr:#x}\nopen_window 7\n{body}\nclose_window 7\nas_host"
    _, window, whole = bare(text, el2=True)
    user = sum(n for key, n in want.items() if key.endswith("/user"))
    assert window["cpus"][0]["tlbi"] == window["cpus"][0]["tlbi_by_guests"] == dict(want)
    assert window["guests"] == whole["guests"] == [{"vmid": 5, **of_guest(kind, user, want.total() - user)}]
    total = window["total"]
    assert total["insns"] == insns + CLOSE_MOV
    assert (total["tlbi_forced"], total["tlbi_forced_user"]) == ((want.total(), user) if kind == FORCED else (0, 0))
    assert (total["tlbi_local"], total["tlbi_broadcast"]) == (want.total(), 0)  # as executed
    for key, n in of_guest(kind, user, want.total() - user).items():
        assert total[f"tlbi_guest_{key}"] == total[f"tlbi_guests_{key}"] == n
        # no vCPU opened the whole run
        assert (whole["total"][f"tlbi_guest_{key}"], whole["total"][f"tlbi_guests_{key}"]) == (0, n)
    check_totals(window)


def test_a_guests_broadcasts_are_not_forced(bare: Bare) -> None:
    """What goes to all CPUs anyway does not depend on the hypervisor."""
    names = [n for n in EL1 if by_name(n)[0] != "local"]
    body, _, want = tlbi_lines(names, el1_class)
    user = sum(n for key, n in want.items() if key.endswith("/user"))
    text = f"{LOAD_OPERANDS}\nopen_window 7\nas_guest 9, {GUEST | FB:#x}\n{body}\nas_host\nclose_window 7"
    _, window, _ = bare(text, el2=True)
    assert window["guests"] == [{"vmid": 9, **of_guest(BROADCAST, user, want.total() - user)}]
    assert window["total"]["tlbi_forced"] == 0
    assert window["total"]["tlbi_guest_broadcast"] == 0  # EL2 opened the window, not a guest
    assert window["total"]["tlbi_guests_broadcast"] == want.total()


def test_forced_without_a_guest(bare: Bare) -> None:
    """A hypervisor may set FB for an EL1 that is no guest: no second stage. TLBIs of EL2 are never forced."""
    body = f"""
        open_window 1
        as_guest 3, {RW | FB:#x}
        tlbi vmalle1
        as_host
        tlbi vmalle1
        tlbi alle2
        close_window 1
    """
    _, window, _ = bare(body, el2=True)
    assert window["cpus"][0]["tlbi"] == {"vmalle1/all": 2, "alle2/all": 1}
    assert window["total"]["tlbi_forced"] == 1
    assert (window["guests"], window["cpus"][0]["tlbi_by_guests"]) == ([], {})


def test_guests_are_counted_apart(bare: Bare) -> None:
    """Each by its VMID, up to eight; windows have those of the guest that opened them."""
    body = "open_window 1\n"
    for vmid in range(1, 11):
        body += f"as_guest {vmid}, {GUEST | FB:#x}\n.rept {vmid}\ntlbi vale1, x28\n.endr\nas_host\n"
    body += f"""
        close_window 1
        as_guest 2, {GUEST:#x}
        open_window 2
        tlbi aside1is, xzr
        as_host
        as_guest 65535, {GUEST | FB:#x}
        .rept 7
        tlbi aside1, xzr
        .endr
        as_host
        as_guest 2, {GUEST:#x}
        close_window 2
        as_host
    """
    _, first, second, _ = bare(body, el2=True)
    known = [{"vmid": vmid, **of_guest(FORCED, vmid)} for vmid in range(1, 9)]
    assert first["guests"] == [*known, {"vmid": "others", **of_guest(FORCED, 9 + 10)}]
    assert second["guests"] == [
        {"vmid": 2, **of_guest(BROADCAST, 1)},
        {"vmid": "others", **of_guest(FORCED, 7)},
    ]
    own = {key: second["total"][f"tlbi_guest_{key}"] for key in of_guest(BROADCAST, 1)}
    assert own == of_guest(BROADCAST, 1)


def test_a_hypervisors_tlbis(bare: Bare) -> None:
    """EL1's forms at EL2 are the kernel's own with HCR_EL2.{E2H, TGE}, else for a guest; stage 2 always is."""
    own = "tlbi vmalle1is\n.rept 3\ntlbi vae1, x28\n.endr\ntlbi vae2, x28\n"
    stage2 = ["ipas2e1is", "ipas2le1", "ripas2e1", "ripas2le1is", "vmalls12e1", "vmalls12e1is", "alle1is"]
    body = ""
    for hcr in (RW, RW | E2H, RW | TGE, RW | E2H | TGE):
        body += f"const64 x1, {hcr:#x}\nmsr hcr_el2, x1\nisb\nopen_window 2\n{own}close_window 2\n"
    body += "open_window 3\n"
    body += "".join(f"tlbi {name}" + (", x28\n" if "ipa" in name else "\n") for name in stage2)
    body += "close_window 3"
    lines = bare(body, el2=True)
    keys = ("tlbi_hyp_local", "tlbi_hyp_broadcast", "tlbi_hyp_stage2")
    found = [tuple(w["total"][key] for key in keys) for w in lines if w.get("window") == 2]
    assert found == [(3, 1, 0), (3, 1, 0), (3, 1, 0), (0, 0, 0)]
    (last,) = (w for w in lines if w.get("window") == 3)
    assert tuple(last["total"][key] for key in keys) == (3, 4, 7)
    assert last["guests"] == [] and last["total"]["tlbi_forced"] == 0


def test_without_el2_nothing_is_said_of_guests(bare: Bare) -> None:
    _, window, _ = bare("open_window 1\ntlbi vmalle1\nclose_window 1")
    assert "guests" not in window and "tlbi_by_guests" not in window["cpus"][0]
    assert not [key for key in window["total"] if "guest" in key or "hyp" in key or "forced" in key]


@pytest.mark.parametrize(("hcr", "ns"), [(GUEST, 20 + 40), (GUEST | FB, 20 + 3000 + 700 + 40)])
def test_forced_tlbis_cost_a_broadcast(bare: Bare, hcr: int, ns: int) -> None:
    """In modelled time."""
    costs = {"tlbi": "20", "broadcast": "3000", "latency": "700", "dsb": "40"}
    body = f"as_guest 1, {hcr:#x}\nopen_window 1\ntlbi vmalle1\ndsb ish\nclose_window 1\nas_host"
    _, window, _ = bare(body, costs=costs, el2=True)
    assert window["modelled_ns"] == ns


def test_dsb_and_ipi(bare: Bare) -> None:
    want = {name: i + 1 for i, name in enumerate(DSB + DSB_NXS)}
    body = "\n".join(f".rept {n}\ndsb {name}\n.endr" for name, n in want.items())
    sgi = ".rept 5\nmsr icc_sgi1r_el1, xzr\n.endr\nmsr icc_sgi1r_el1, x9"  # x9: to all but the sender
    _, window, _ = bare(f"mov x9, #1 << 40\nopen_window 1\n{body}\n{sgi}\nclose_window 1")
    assert window["cpus"][0]["dsb"] == want
    assert (window["cpus"][0]["ipi"], window["cpus"][0]["ipi_all"]) == (6, 1)
    assert window["total"]["insns"] == sum(want.values()) + 6 + CLOSE_MOV
    check_totals(window)


# Instructions, and how many are attempted when they run: the exact count is what makes
# kernels comparable, so everything that could upset it stands here.
SNIPPETS = {
    "plain": ("add x1, x1, #1\n" * 7, 7),
    "nothing": ("", 0),
    "loop": ("mov x1, #1000\n1: sub x1, x1, #1\ncbnz x1, 1b", 1 + 2000),
    "loads": ("ldr x1, [x28]\nadd x1, x1, #1\nldp x2, x3, [x28, #16]\nstr x1, [x28]\nadd x1, x1, #1", 5),
    # a fault in the middle of a block: what stands behind it is executed once, afterwards
    "fault": ("add x1, x1, #1\n" * 3 + "ldr x1, [x27]\n" + "add x1, x1, #1\n" * 4, 8 + HANDLER),
    "faults": ("ldr x1, [x27]\nadd x1, x1, #1\nstr x1, [x27]\nldr x1, [x28]", 4 + 2 * HANDLER),
    "fault first and last": ("b 1f\n1: ldr x1, [x27]\nldr x2, [x27]\nb 2f\n2:", 4 + 2 * HANDLER),
    # device memory: QEMU leaves the block and executes the instruction again
    "device": ("add x1, x1, #1\nldr w1, [x26]\nadd x1, x1, #1\nldr w1, [x26]\nadd x1, x1, #1", 5),
    "undefined": ("add x1, x1, #1\nudf #0\nadd x1, x1, #1", 3 + HANDLER),
    "supervisor call": ("add x1, x1, #1\nsvc #0\nadd x1, x1, #1\nadd x1, x1, #1", 4 - 1 + HANDLER),
    "system": ("mrs x1, midr_el1\nisb\ndmb ish\nmrs x1, esr_el1\nmsr tpidr_el0, x1\nnop", 6),
    "atomics": ("mov x1, #0\nldadd x1, x2, [x28]\ncas x1, x2, [x28]\nldxr x3, [x28]\nstxr w4, x3, [x28]", 5),
    "zero a line": ("dc zva, x28\ndc cvau, x28\nic ivau, x28", 3),
}  # fmt: skip


@pytest.mark.parametrize("mode", ["segment", "each"])
def test_insns(bare: Bare, mode: str) -> None:
    """Each snippet in a window of its own, three times over: also when it was translated before."""
    body = "mov x19, #3\n9:\n"
    for i, (text, _) in enumerate(SNIPPETS.values()):
        body += f"open_window {i + 1}\n{text}\nclose_window {i + 1}\n"
    body += "sub x19, x19, #1\ncbnz x19, 9b"
    _, *windows, whole = bare(body, insns=mode)
    assert [w["window"] for w in windows] == [*range(1, len(SNIPPETS) + 1)] * 3
    assert [w["seq"] for w in windows] == [*range(1, 3 * len(SNIPPETS) + 1)]
    names = list(SNIPPETS)
    got = [(names[w["window"] - 1], w["total"]["insns"] - CLOSE_MOV) for w in windows]
    assert [w["total"]["insns_own"] for w in windows] == [w["total"]["insns"] for w in windows]
    # "supervisor call": the handler skips the instruction after svc
    assert got == [(name, n) for name, (_, n) in SNIPPETS.items()] * 3
    in_windows = sum(n + CLOSE_MOV for _, n in got)
    around = 3 * len(SNIPPETS) * 3 + 3 * 2 + 1  # open_window, the marker that closes; the loop
    assert whole["total"]["insns"] == 2 + 9 + in_windows + around + 5


# Each kind a number of times of its own, and what is close to one and is none.
ATOMICS = [
    "cas x1, x2, [x28]", "caspal x2, x3, x4, x5, [x28]", "swpb w1, w2, [x28]", "ldadd x1, x2, [x28]", "stadd x1, [x28]",
    "ldclralh w1, w2, [x28]", "steor w1, [x28]", "ldset x1, xzr, [x28]", "ldsmax x1, x2, [x28]", "ldumin w1, w2, [x28]",
    "stxr w4, x3, [x28]", "stlxrb w4, w3, [x28]", "stxp w4, x2, x3, [x28]", "stlxp w4, w2, w3, [x28]",
]  # fmt: skip
NO_ATOMICS = ["ldxr x1, [x28]", "ldaxp x1, x2, [x28]", "ldar x1, [x28]", "stlr x1, [x28]", "ldapr x1, [x28]", "clrex"]


def test_atomics(bare: Bare) -> None:
    """Each that is executed, the exclusive stores that fail too, by the vCPU that does it; also one that faults."""
    body = "\n".join(f".rept {n + 1}\n{text}\n.endr" for n, text in enumerate(ATOMICS))
    body += "\n" + "\n".join(NO_ATOMICS) + "\nldadd x1, x2, [x27]"
    want = sum(range(1, len(ATOMICS) + 1)) + 1
    _, window, whole = bare(f"open_window 1\n{body}\nclose_window 1")
    assert window["total"]["atomics"] == window["total"]["atomics_own"] == window["cpus"][0]["atomics"] == want
    assert window["total"]["insns"] == want + len(NO_ATOMICS) + HANDLER + CLOSE_MOV
    assert (whole["total"]["atomics"], whole["total"]["atomics_own"]) == (want, 0)
    secondary = ".rept 5\nstadd x1, [x28]\n.endr"
    _, window, _ = bare("open_window 1\nstart_cpus\nstadd x1, [x28]\nclose_window 1", secondary=secondary, cpus=3)
    assert [cpu["atomics"] for cpu in window["cpus"]] == [1, 5, 5]
    assert (window["total"]["atomics"], window["total"]["atomics_own"]) == (11, 1)


# Code that is counted apart from its fourth instruction up to the last but one: in the middle of blocks.
SPUN = 1 + 2 * 100 + 3
SPIN = """
    .section .apart, "ax"
apart:
    add x1, x1, #1
    add x1, x1, #1
    add x1, x1, #1
    mov x2, #100
1:  sub x2, x2, #1
    cbnz x2, 1b
    ldr x1, [x27]
    ldr x1, [x28]
    add x1, x1, #1
    add x1, x1, #1
    ret
    .text
"""
SKIP = f"{APART + 12:x}-{APART + 36:x}"


@pytest.mark.parametrize("mode", ["segment", "each"])
def test_code_that_is_counted_apart(bare: Bare, mode: str) -> None:
    """To the instruction, faults and what stands beside it in a block; the handler is elsewhere. All has it too."""
    body = f"{SPIN}\nopen_window 1\nbl apart\nadd x1, x1, #1\nbl apart\nclose_window 1\nbl apart"
    _, window, whole = bare(body, insns=mode, skip=[SKIP, f"{APART + 40:#x}-{APART + 44:#x}"])
    one = 3 + SPUN + 2 + HANDLER
    assert window["total"]["insns"] == 2 * (1 + one) + 1 + CLOSE_MOV
    assert window["total"]["insns_spin"] == window["total"]["insns_spin_own"] == 2 * (SPUN + 1)
    assert (whole["total"]["insns_spin"], whole["total"]["insns_spin_own"]) == (3 * (SPUN + 1), 0)
    check_totals(window)
    _, without, _ = bare(body, insns=mode)
    assert without["total"] == {**window["total"], "insns_spin": 0, "insns_spin_own": 0}


def test_each_vcpu_spins_by_itself(bare: Bare) -> None:
    """What others spin is theirs; a marker may stand in such code."""
    body = f"{SPIN}\nopen_window 1\nstart_cpus\nbl apart\nclose_window 1"
    secondary = "mov x14, #3\n1: bl apart\nsub x14, x14, #1\ncbnz x14, 1b"
    _, window, _ = bare(body, secondary=secondary, cpus=3, skip=[SKIP])
    assert [cpu["insns_spin"] for cpu in window["cpus"]] == [SPUN, 3 * SPUN, 3 * SPUN]
    assert (window["total"]["insns_spin"], window["total"]["insns_spin_own"]) == (7 * SPUN, SPUN)
    check_totals(window)
    everything = "40100000-40200000"
    _, window, whole = bare(f"open_window 1\n{SNIPPETS['faults'][0]}\nclose_window 1", skip=[everything])
    assert window["total"]["insns_spin"] == window["total"]["insns"] == SNIPPETS["faults"][1] + CLOSE_MOV
    assert whole["total"]["insns_spin"] == whole["total"]["insns"]


FUNCTIONS = [APART, APART + 12, APART + 36, APART + 44]
"""Where the parts of SPIN begin; the second one is SKIP."""


@pytest.mark.parametrize("mode", ["segment", "each"])
def test_instructions_by_function(bare: Bare, mode: str) -> None:
    """To the instruction, with faults, and where one function falls through to the next in a block."""
    body = f"{SPIN}\nbl apart\nopen_window 1\nbl apart\nadd x1, x1, #1\nbl apart\nclose_window 1\nbl apart"
    _, window, whole = bare(body, insns=mode, skip=[SKIP], functions=FUNCTIONS)
    assert window["functions"] == [[0, 2 * (1 + HANDLER) + 1 + CLOSE_MOV], [1, 2 * 3], [2, 2 * SPUN], [3, 2 * 2]]
    assert window["functions"][2][1] == window["total"]["insns_spin_own"]
    assert "functions" not in whole
    _, without, _ = bare(body, insns=mode, skip=[SKIP])
    del window["functions"]
    assert without == window
    one_each = [APART + 4 * n for n in range(12)]
    _, window, _ = bare(body, insns=mode, functions=one_each)
    assert [count for _, count in window["functions"][1:]] == [2 * n for n in (1, 1, 1, 1, 100, 100, 1, 1, 1, 1, 1)]


def test_functions_are_of_the_vcpu_that_opened_the_window(bare: Bare) -> None:
    """Others run the same code meanwhile; the markers and what is before the window are not in it."""
    body = f"{SPIN}\nbl apart\nopen_window 1\nstart_cpus\nbl apart\nclose_window 1\nopen_window 2\nclose_window 2"
    secondary = "mov x14, #3\n1: bl apart\nsub x14, x14, #1\ncbnz x14, 1b"
    _, window, empty, _ = bare(body, secondary=secondary, cpus=3, skip=[SKIP], functions=FUNCTIONS)
    assert window["functions"][1:] == [[1, 3], [2, SPUN], [3, 2]]
    assert sum(count for _, count in window["functions"]) == window["total"]["insns_own"]
    assert empty["functions"] == [[0, CLOSE_MOV]]


def test_functions_add_up(bare: Bare) -> None:
    """A function for each instruction of the program: every snippet, in both modes, again when it is translated."""
    text = [0x40100000 + 4 * n for n in range(0x800)]
    body = "mov x19, #3\n9:\n"
    for i, (snippet, _) in enumerate(SNIPPETS.values()):
        body += f"open_window {i + 1}\n{snippet}\nclose_window {i + 1}\n"
    body += "sub x19, x19, #1\ncbnz x19, 9b"
    found = {}
    for mode in ("segment", "each"):
        _, *windows, _ = bare(body, insns=mode, functions=text)
        assert [sum(n for _, n in w["functions"]) for w in windows] == [w["total"]["insns_own"] for w in windows]
        found[mode] = [w["functions"] for w in windows]
    assert found["segment"] == found["each"]
    assert {n for numbers in found["each"] for n, _ in numbers}.isdisjoint({0, 1})


def test_block_mode_is_not_exact(bare: Bare) -> None:
    """Why it is not the default: a fault makes it count what was not executed."""
    text = f"open_window 1\n{SNIPPETS['fault'][0]}\nclose_window 1"
    exact = bare(text)[1]["total"]["insns"]
    assert exact == SNIPPETS["fault"][1] + CLOSE_MOV
    assert bare(text, insns="block")[1]["total"]["insns"] > exact


def test_vcpus(bare: Bare) -> None:
    """Four vCPUs at once, each booked to itself. The first one waits, so its insns are its own."""
    secondary = ".rept 11\ntlbi vale1, x28\n.endr\n.rept 3\ntlbi aside1os, xzr\n.endr\n"
    secondary += "ic ivau, x28\nic ialluis\nic iallu\ndsb nsh\nmsr icc_sgi1r_el1, xzr"
    body = "open_window 9\ntlbi vmalle1is\nstart_cpus\ndsb ish\nclose_window 9"
    header, window, whole = bare(body, secondary=secondary, cpus=4)
    assert header["vcpus_max"] == 4
    one = {
        "insns": 11 + 3 + 3 + 2 + SECONDARY,
        "insns_spin": 0,
        "atomics": 0,
        "tlbi": {"vale1/user": 11, "aside1os/user": 3},
        "dsb": {"nsh": 1},
        "ipi": 1,
        "ipi_all": 0,
        "ic_broadcast": 2,
    }
    assert window["cpus"][1:] == [{"cpu": cpu, **one} for cpu in (1, 2, 3)]
    assert window["cpus"][0]["tlbi"] == {"vmalle1is/all": 1}
    assert window["cpus"][0]["dsb"] == {"ish": 1}
    assert window["total"]["tlbi_local_user"] == 33
    assert window["total"]["tlbi_broadcast"] == 10
    check_totals(window)
    assert whole["cpus"][1:] == window["cpus"][1:]


def test_own_insns(bare: Bare) -> None:
    """A window that another vCPU opens and closes: its own instructions, exactly, whatever the others do meanwhile."""
    turns = 200 << 16  # long enough that the first vCPU, which waits, executes something too
    secondary = f"""
        mrs x2, mpidr_el1
        and x2, x2, #255
        cmp x2, #2
        b.ne 2f
        open_window 9
        {SNIPPETS["faults"][0]}
        movz x1, #{turns >> 16}, lsl #16
    1:  sub x1, x1, #1
        cbnz x1, 1b
        close_window 9
    2:
    """
    _, window, whole = bare("start_cpus", secondary=secondary, cpus=4)
    own = SNIPPETS["faults"][1] + 1 + 2 * turns + CLOSE_MOV
    assert window["cpus"][2]["insns"] == window["total"]["insns_own"] == own
    assert window["cpus"][0]["insns"] > 0
    assert window["total"]["insns"] == own + window["cpus"][0]["insns"]
    assert whole["total"]["insns_own"] == 0


def test_modelled_time(bare: Bare) -> None:
    """One vCPU: what it executes and what that is said to cost, to the nanosecond."""
    costs = {"insn": "1.5", "tlbi": "20", "broadcast": "3000", "latency": "700", "dsb": "40"}
    body = """
        open_window 9
        .rept 100
        nop
        .endr
        .rept 3
        tlbi vmalle1
        .endr
        dsb nsh
        close_window 9
        open_window 10
        .rept 3
        tlbi vmalle1is
        .endr
        dsb ishst
        dsb ish
        dsb ish
        close_window 10
    """
    _, local, broadcast, whole = bare(body, costs=costs)
    assert local["total"]["insns"] == 100 + 3 + 1 + CLOSE_MOV
    assert local["modelled_ns"] == int(1.5 * local["total"]["insns"] + 3 * 20 + 40)
    # The third one is complete when all are served, which began with the first; that is behind itself and its issue.
    served = 1.5 + 20 + 3 * 3000 + 700
    assert broadcast["modelled_ns"] == int(served + 40 + 1.5 + 40 + 1.5 * CLOSE_MOV)
    assert local["insns_astray"] == broadcast["insns_astray"] == 0
    assert "modelled_ns" not in whole


def test_vcpus_are_kept_in_step(bare: Bare) -> None:
    """With modelled time the first vCPU, which polls, comes as far as the one that it waits for, and no further."""
    turns = 20 << 16
    secondary = f"""
        open_window 9
        movz x1, #{turns >> 16}, lsl #16
    1:  sub x1, x1, #1
        cbnz x1, 1b
        close_window 9
    """
    _, window, _ = bare("start_cpus", secondary=secondary, cpus=2, costs={"insn": "1"})
    own = window["total"]["insns_own"]
    assert window["modelled_ns"] == own
    assert window["cpus"][0]["insns"] == pytest.approx(own, rel=0.02)
    assert window["insns_astray"] < own / 100


def test_wrong_markers(bare: Bare) -> None:
    """Close without open, nested open, close of another, one left open: errors, and the rest holds."""
    lines = bare(
        """
        close_window 3
        open_window 4
        dsb ish
        open_window 5
        dsb ish
        close_window 5
        dsb ish
        close_window 4
        close_window 4
        open_window 6
        """
    )
    errors = [line["error"] for line in lines if "error" in line]
    assert errors == [
        "window 3 was to close and none is open",
        "window 5 was to open while 4 is open",
        "window 5 was to close while 4 is open",
        "window 4 was to close and none is open",
        "window 6 is still open at exit",
    ]
    windows = [line for line in lines if "window" in line]
    assert [(w["window"], w["seq"], w["total"]["dsb_ish"]) for w in windows] == [
        (4, 1, 3),
        ("whole-run", 2, 3),
    ]


def test_large_id(bare: Bare) -> None:
    """The id is all of x0."""
    body = "const64 x0, 0xfedcba9876543210\nhint #112\nhint #113"
    assert bare(body)[1]["window"] == 0xFEDCBA9876543210


def test_window_is_written_when_it_closes(build: Callable[[str], Path], gcc: str, qemu: Qemu, tmp_path: Path) -> None:
    """A guest that then hangs, and a QEMU that is killed, must not take it along."""
    out = tmp_path / "counts"
    body = "open_window 2\ndsb sy\nclose_window 2\n1: b 1b"
    with pytest.raises(subprocess.TimeoutExpired):
        boot(tmp_path, gcc, qemu, body, f"{build(qemu.plugin)},out={out}", timeout=3)
    lines = out.read_text().splitlines()
    assert len(lines) == 2
    assert json.loads(lines[1])["total"]["dsb_sy"] == 1


def test_shared_thread(build: Callable[[str], Path], gcc: str, qemu: Qemu, tmp_path: Path) -> None:
    """Several vCPUs under thread=single are refused before they execute; one is welcome."""
    out = tmp_path / "counts"
    plugin = f"{build(qemu.plugin)},mode=count,out={out}"
    single = ("-accel", "tcg,thread=single")
    done = boot(tmp_path, gcc, qemu, "start_cpus", plugin, *single, cpus=4)
    assert done.returncode == 1
    assert done.stderr.startswith("lull: several vCPUs share one host thread")
    assert "thread=multi" in done.stderr
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [set(line) for line in lines] == [{"plugin", "version", "mode", "api", "vcpus_max"}, {"error"}]

    done = boot(tmp_path, gcc, qemu, "dsb sy", plugin, *single)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(out.read_text().splitlines()[-1])["total"]["dsb_sy"] == 1


def test_refused_options(build: Callable[[str], Path], gcc: str, qemu: Qemu, tmp_path: Path) -> None:
    """QEMU ends, not zero, with what the plugin has to say."""
    done = boot(tmp_path, gcc, qemu, "", f"{build(qemu.plugin)},out={tmp_path / 'x'},colour=red")
    assert done.returncode == 1
    known = "mode out insns skip cost quantum functions speculation ntlbpa symbols cover"
    assert f"lull: unknown option 'colour' (known: {known})" in done.stderr


def test_full_disk(build: Callable[[str], Path], gcc: str, qemu: Qemu, tmp_path: Path) -> None:
    done = boot(tmp_path, gcc, qemu, "", f"{build(qemu.plugin)},out=/dev/full")
    assert done.stderr.count("lull: cannot write to '/dev/full' (No space left on device)") == 1


# One page of tables for both halves, of 39 bits each: three blocks of 1 GiB, the last two lead to the same RAM. Then
# the last one is pointed elsewhere, through the upper half, as a kernel would.
REPOINTED = """
    .set root, data
    adr x1, root
    const64 x2, 0x0000000000000401
    str x2, [x1]
    const64 x2, 0x0000000040000705
    str x2, [x1, #8]
    str x2, [x1, #16]
    const64 x2, 0x000000000000ff00
    msr mair_el1, x2
    const64 x2, 0x00000000b5193519
    msr tcr_el1, x2
    msr ttbr0_el1, x1
    msr ttbr1_el1, x1
    isb
    tlbi vmalle1
    dsb nsh
    mrs x2, sctlr_el1
    orr x2, x2, #1
    msr sctlr_el1, x2
    isb
    const64 x3, 0xffffff8000000000
    orr x3, x3, x1
    const64 x2, 0x0000000000000401
    str x2, [x3, #16]
    dsb ish
"""


# The same at EL1, by a hypervisor at EL2, which has loaded a guest's table of the same ASID in between, as nVHE does.
FROM_EL2 = f"""
    as_guest 0, {RW:#x}
    {REPOINTED[: REPOINTED.index("const64 x3")]}
    as_host
    adr x2, stage2
    msr ttbr0_el1, x2
    isb
    msr ttbr0_el1, x1
    const64 x2, 0x0000000000000401
    str x2, [x1, #16]
    dsb ish
"""


def test_a_hypervisor_below_the_kernel(build: Callable[[str], Path], gcc: str, qemu: Qemu, tmp_path: Path) -> None:
    """Its stores to the kernel's tables are judged; what it writes to TTBR0_EL1 is not the kernel's."""
    done = boot(tmp_path, gcc, qemu, FROM_EL2, f"{build(qemu.plugin)},mode=check", el2=True)
    lines = done.stderr.splitlines()
    assert lines[0].startswith("report 1: bbm/output: "), done.stderr
    assert lines[-1] == "verdict: reports: 1, seen 1 time", done.stderr


@pytest.mark.parametrize(("vmid", "hcr"), [(0, GUEST), (5, GUEST | E2H)])
def test_hosts_that_are_not_modelled(
    build: Callable[[str], Path], gcc: str, qemu: Qemu, tmp_path: Path, vmid: int, hcr: int
) -> None:
    """The host has a second stage itself (pKVM), or its kernel is at EL1 although HCR_EL2.E2H is set."""
    body = f"as_guest {vmid}, {hcr:#x}"
    done = boot(tmp_path, gcc, qemu, body, f"{build(qemu.plugin)},mode=check", el2=True)
    assert (done.returncode, done.stderr.startswith("lull: mode=check does not model pKVM")) == (1, True)


# A table in the second half of a page of 16 or 64 KiB. The page is freed while the table is loaded.
FREED = """
    const64 x1, {root:#x}
    const64 x2, 0x0000000040000705
    str x2, [x1, #{entry}]
    const64 x2, 0x000000000000ff00
    msr mair_el1, x2
    const64 x2, {tcr:#x}
    msr tcr_el1, x2
    msr ttbr0_el1, x1
    msr ttbr1_el1, x1
    isb
    tlbi vmalle1
    dsb nsh
    mrs x2, sctlr_el1
    orr x2, x2, #1
    msr sctlr_el1, x2
    isb
    const64 x0, {pfn:#x}
    mov x1, #0
    hint #114
"""


@pytest.mark.parametrize(("shift", "tcr", "block"), [(14, 0x7521B521, 25), (16, 0xF5217521, 29)], ids=["16k", "64k"])
def test_pages_that_a_marker_frees(
    build: Callable[[str], Path], gcc: str, qemu: Qemu, tmp_path: Path, shift: int, tcr: int, block: int
) -> None:
    """A marker has the number of a page, and the page the size that the tables of the kernel have."""
    page = 0x42000000
    body = FREED.format(root=page + (1 << shift - 1), entry=(0x40000000 >> block) * 8, tcr=tcr, pfn=page >> shift)
    done = boot(tmp_path, gcc, qemu, body, f"{build(qemu.plugin)},mode=check")
    assert done.stderr.startswith("report 1: free/root: "), done.stderr


def test_the_installed_checker(gcc: str, qemu: Qemu, tmp_path: Path) -> None:
    """As someone has it who has nothing else of Lull: installed, loaded by hand, read on the terminal."""
    run("make", "-C", CHECKER, f"OUT={tmp_path / 'build'}", "PREFIX=/opt/lull", f"DESTDIR={tmp_path}", "install")
    installed = tmp_path / "opt/lull"
    assert "/opt/lull/lib/lull/lull.so" in (installed / "share/man/man7/lull-checker.7").read_text()
    assert (installed / "share/doc/lull-checker/README.md").read_text() == (CHECKER / "README.md").read_text()
    plugin = f"{installed / 'lib/lull' / qemu.plugin},mode=check"
    done = boot(tmp_path, gcc, qemu, REPOINTED, plugin)
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    assert lines[0].startswith("report 1: bbm/output: the output address of a valid entry was changed")
    assert lines[2].startswith("  entry    0x80000000, ASID 0, a block at level 1, seen on CPU 0")
    assert lines[3:6] == [
        "  old      page 0x40000000, descriptor 0x0000000040000705",
        "  new      page 0x0, descriptor 0x0000000000000401",
        "  held by  CPU 0",
    ]
    assert lines[-2].startswith("not checked, for lack of a symbol: free (no free_unref_page), ")
    assert lines[-1] == "verdict: reports: 1, seen 1 time"
    body = REPOINTED.replace("str x2, [x3, #16]", "")
    assert (
        boot(tmp_path, gcc, qemu, body, plugin)
        .stderr.splitlines()[-1]
        .startswith("verdict: inconclusive: it did not see ")
    )


@pytest.mark.parametrize(
    "options",
    [
        ["-m", "193M"],
        ["-m", "128M", "-object", "memory-backend-memfd,id=ram,size=128M,merge=off", "-machine", "memory-backend=ram"],
    ],
)
def test_ram_is_found(build: Callable[[str], Path], gcc: str, qemu: Qemu, tmp_path: Path, options: list[str]) -> None:
    """All of it, and not what is mapped beside it."""
    out = tmp_path / "reports"
    done = boot(tmp_path, gcc, qemu, "nop", f"{build(qemu.plugin)},mode=check,out={out}", *options)
    assert done.returncode == 0, done.stderr
    (found,) = (line["ram"] for line in map(json.loads, out.read_text().splitlines()) if "ram" in line)
    assert int(found, 16) == int(options[1][:-1]) << 20


def test_ram_in_two_pieces(build: Callable[[str], Path], gcc: str, qemu: Qemu, tmp_path: Path) -> None:
    """Said, when the second one is used: tables there would not be seen."""
    pieces = [f"-object memory-backend-ram,id={n},size=128M -numa node,memdev={n}".split() for n in ("a", "b")]
    body = REPOINTED.replace("str x2, [x3, #16]", "const64 x3, 0xffffff8048001000\nstr x2, [x3]")
    plugin = f"{build(qemu.plugin)},mode=check"
    done = boot(tmp_path, gcc, qemu, body, plugin, "-m", "256M", *(word for piece in pieces for word in piece))
    lines = done.stderr.splitlines()
    assert "error: the guest uses memory at 0x48001000, behind the 128 MiB of RAM that are one piece" in done.stderr
    assert lines[-1] == "verdict: failed: see the errors above"


def test_all_forms_are_covered() -> None:
    """The runs above execute everything but EL3's and RME's forms, which need EL3."""
    assert {n for n in TLBI if by_name(n)[2] != 3} == set(EL1) | set(EL2)
