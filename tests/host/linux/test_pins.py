# SPDX-License-Identifier: GPL-2.0-only
"""Pinned files, in archives that move on: each ends in a working build, or in one sentence that says what to do."""

from __future__ import annotations

import hashlib
import io
import json
import re
import shutil
import subprocess
import tarfile
import time
from pathlib import Path

import pytest
from archive import PACKAGE, Archive, build, machines_apt
from support import FAKE, REPOSITORY, Tool, build_deb, small_disk, write_files

from lull import base as bases
from lull import pinning
from lull.base import Pin
from lull.errors import FetchError, UsageError
from lull.guest import qemu, userland
from lull.guest.userland import Userland
from lull.linux import apt, pins
from lull.linux.fetch import Store

pytestmark = pytest.mark.skipif(not (shutil.which("apt-get") and apt.codename()), reason="no apt here")
RELEASE = apt.codename()
NEWER = "6.12.9-1"


def write_base(tool: Tool, release: str = "", suites: str = "") -> None:
    """Give the base of the tests a URL of a release, and suites."""
    base = Path(tool.environment["TEST_BASE"])
    text = (
        base.read_text()
        .replace('release = ""', f'release = "{release}"')
        .replace("suites = []", f"suites = [{suites}]")
    )
    base.write_text(text)


def pin_package(tool: Tool, pin: Pin) -> None:
    """Let the base of the tests pin this package."""
    base = Path(tool.environment["TEST_BASE"])
    text = re.sub(r"(?m)^path = .*$", f'path = "{pin.path}"', base.read_text())
    base.write_text(re.sub(r"(?m)^sha256 = .*$", f'sha256 = "{pin.sha256}"', text))


def kernel_tarball() -> bytes:
    """The fake kernel as the archive of kernel releases has it."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:xz") as tar:
        tar.add(FAKE / "linux", "linux-6.12.0")
    return data.getvalue()


def test_a_newer_release_does_not_take_its_place(lull: Tool, archive: Archive) -> None:
    """The pinned file is used while the pool has it, whatever newer one a suite lists. No index is fetched."""
    archive.publish(b"newer", NEWER)
    done = build(lull)
    assert done.returncode == 0, done.stderr
    assert f"fetching {PACKAGE} 6.12.0-1" in done.stderr and "any more" not in done.stderr
    assert not [path for path, _ in archive.requests if "/dists/" in path]


@pytest.mark.parametrize("snapshot", [True, False])
def test_only_a_newer_release_is_there(lull: Tool, archive: Archive, snapshot: bool) -> None:
    """Simulation 1: the pinned file is in the archive of old versions, or else the newest is used, with a notice."""
    archive.publish(archive.files[f"/debian/{archive.pin.path}"], NEWER)
    archive.drop(archive.pin, RELEASE, snapshot=snapshot)
    lull.environment["LULL_ARCHIVES"] = archive.url.replace("/debian", "/snapshot/file/{sha1}")
    done = build(lull)
    assert done.returncode == 0, done.stderr
    notice = f"no archive has {PACKAGE} 6.12.0 any more: using the newest, {NEWER}; the features were tested on 6.12.0"
    assert (notice in done.stderr) != snapshot, done.stderr
    requests = len(archive.requests)
    assert build(lull, "--offline").returncode == 0
    assert len(archive.requests) == requests


def test_the_pin_is_in_another_suite(lull: Tool, archive: Archive) -> None:
    """Simulation 2: this release's suite has a newer version, another suite the pinned one: the pool has both."""
    archive.publish(archive.files[f"/debian/{archive.pin.path}"], "6.12.0-1", suite="later")
    archive.suites[RELEASE] = {}
    archive.publish(b"newer", NEWER)
    done = build(lull)
    assert done.returncode == 0 and "any more" not in done.stderr, done.stderr


def test_the_series_is_gone(lull: Tool, archive: Archive) -> None:
    """Simulation 3: the suite has another series only. One sentence says what to download; doctor fails."""
    archive.drop(archive.pin, RELEASE)
    archive.publish(b"other", "7.4.1-1", name="linux-source-7.4")
    write_base(lull, f"{archive.url}/no/linux-6.12.0.tar.xz")
    done = build(lull)
    assert done.returncode == 7, done.stderr
    assert f"no archive that this machine reaches has {PACKAGE}" in done.stderr
    assert (
        f"or download {archive.url}/no/linux-6.12.0.tar.xz, unpack it, and name the folder with --tree" in done.stderr
    )
    assert "Traceback" not in done.stderr and "E: " not in done.stderr
    doctor = lull("doctor", "--base", lull.environment["TEST_BASE"])
    assert doctor.returncode == 3
    assert f"missing  {PACKAGE}" in doctor.stdout and "in no archive that this machine reaches" in doctor.stdout


def test_a_suite_is_gone(lull: Tool, archive: Archive) -> None:
    """Simulation 4: the mirror lacks suites. The newest comes from the others, and those that are missing are named."""
    archive.publish(archive.files[f"/debian/{archive.pin.path}"], NEWER)
    archive.drop(archive.pin, RELEASE)
    del archive.suites[f"{RELEASE}-backports"]
    archive.index()
    write_base(lull, suites='"gone-backports"')
    done = build(lull)
    assert done.returncode == 0, done.stderr
    assert f"left out: {RELEASE}-backports, gone-backports: the package indexes could not be fetched: " in done.stderr
    assert "does not have it (any more)" in done.stderr and f"using the newest, {NEWER}" in done.stderr


def test_the_release_of_the_kernel(lull: Tool, archive: Archive) -> None:
    """Where Debian's package is nowhere, the release of the same version is used; its hash is compared."""
    archive.drop(archive.pin, RELEASE)
    url = archive.release("pub", "linux-6.12.0.tar.xz", kernel_tarball())
    write_base(lull, url)
    doctor = lull("doctor", "--base", lull.environment["TEST_BASE"])
    assert f"its pinned package is in no archive; instead {url}" in doctor.stdout
    whole = archive.files["/pub/linux-6.12.0.tar.xz"]
    archive.files["/pub/linux-6.12.0.tar.xz"] = whole[:-1] + b"x"
    done = build(lull)
    assert done.returncode == 7 and f"{url}: the archive sent a file with another hash" in done.stderr, done.stderr
    archive.files["/pub/linux-6.12.0.tar.xz"] = whole
    done = build(lull)
    assert done.returncode == 0, done.stderr
    assert f"no archive has {PACKAGE} 6.12.0 any more: using {url}, which lacks Debian's patches" in done.stderr


@pytest.fixture
def tools(archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Archive:
    """A machine without QEMU, and pins of a QEMU and a busybox of two lines of shell."""
    monkeypatch.setenv("APT_CONFIG", str(machines_apt(archive, tmp_path / "etc")))
    monkeypatch.setattr(qemu, "of_machine", lambda: None)
    monkeypatch.setattr(pins, "FILE", tmp_path / "pins.txt")
    monkeypatch.setattr(pins.load_pins, "__defaults__", (tmp_path / "pins.txt",))
    for name, program in ((qemu.PACKAGE, f"usr/bin/{qemu.PROGRAM}"), ("busybox-static", "bin/busybox")):
        root = write_files(tmp_path / name, {program: "#!/bin/sh\necho QEMU emulator version 10.0.13\n"})
        (root / program).chmod(0o755)
        pin = archive.publish(build_deb(root, tmp_path / f"{name}.deb").read_bytes(), "10.0.13-1", name)
        pins.save(qemu.group() if name == qemu.PACKAGE else "busybox-arm64", [pin], tmp_path / "pins.txt")
    return archive


@pytest.mark.parametrize("gone", [False, True])
def test_backports_are_gone(
    tools: Archive, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], gone: bool
) -> None:
    """Simulation 5: QEMU and busybox come from the pool, or from the archive of old versions; no suite is asked."""
    tools.suites = {}
    tools.index()
    if gone:
        for group in (qemu.group(), "busybox-arm64"):
            tools.drop(pins.load_pins(group)[0], snapshot=True)
        monkeypatch.setenv("LULL_ARCHIVES", tools.url.replace("/debian", "/snapshot/file/{sha1}"))
    found = qemu.of_store(Store())
    assert found.version == "10.0.13" and Store().busybox().name == "busybox"
    assert "newest" not in capsys.readouterr().err
    assert not [path for path, _ in tools.requests if "/dists/" in path]
    requests = len(tools.requests)
    assert qemu.of_store(Store(offline=True)) == found and Store(offline=True).busybox().exists()
    assert len(tools.requests) == requests


def test_the_newest_qemu(tools: Archive, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Where the pinned one is nowhere, the newest of the suites takes its place, and that is said."""
    monkeypatch.setattr(qemu, "SUITES", (RELEASE,))
    tools.publish(tools.files[f"/debian/{pins.load_pins(qemu.group())[0].path}"], "10.1.0-1", qemu.PACKAGE)
    tools.drop(pins.load_pins(qemu.group())[0], RELEASE)
    assert qemu.of_store(Store()).version == "10.0.13"  # what the program says
    assert Store().known(qemu.entry()).package.version == "10.1.0-1"  # type: ignore[union-attr]
    assert "using the newest packages instead" in capsys.readouterr().err


def test_another_hash(lull: Tool, archive: Archive) -> None:
    """An archive with another file of that name is passed over; without a better one, what it did is said."""
    archive.files["/other/" + archive.pin.path] = archive.files[f"/debian/{archive.pin.path}"]
    archive.lies = PACKAGE
    done = build(lull)
    assert done.returncode == 7, done.stderr
    assert "with another hash than announced" in done.stderr
    archive.files[f"/named/{archive.pin.sha256}"] = archive.files[f"/debian/{archive.pin.path}"]
    lull.environment["LULL_ARCHIVES"] = archive.url.replace("/debian", "/named/{sha256}")
    done = build(lull)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("size", "what"), [("4m", "the package"), ("4m", "the indexes"), ("30m", "the package"), ("600m", "the indexes")]
)
def test_a_full_disk(lull: Tool, archive: Archive, size: str, what: str) -> None:
    """Exit 8 at once, before or while something is downloaded; apt itself would try again and again."""
    noise = hashlib.shake_256(b"more noise").digest(40_000_000)
    if what == "the package":
        archive.pin = archive.publish(noise, NEWER)
        pin_package(lull, archive.pin)
    else:
        archive.drop(archive.pin, RELEASE)
        text = "".join(f"Package: p{n}\nDescription: test\nTag: {noise.hex()}\n\n" for n in range(9))
        archive.suites[RELEASE]["long"] = text if size == "600m" else text[:50_000]
        archive.index()
    lull.within = tuple(small_disk(lull.cache, size))
    started = time.monotonic()
    done = lull("fetch", "--base", lull.environment["TEST_BASE"], timeout=100)
    assert done.returncode == 8, done.stderr
    assert "free some space" in done.stderr and str(lull.cache) in done.stderr and time.monotonic() - started < 60


@pytest.mark.skipif(not shutil.which("gpg"), reason="no gpg here: apt looks at the dates of signed indexes only")
def test_an_expired_suite(lull: Tool, archive: Archive, tmp_path: Path) -> None:
    """It is named, and the others are used."""
    home = tmp_path / "gpg"
    home.mkdir(mode=0o700)
    gpg = ["gpg", "--homedir", str(home), "--batch", "--quiet", "--passphrase", ""]
    subprocess.run([*gpg, "--quick-generate-key", "test@localhost", "ed25519", "sign", "never"], check=True)
    (home / "key.gpg").write_bytes(subprocess.run([*gpg, "--export"], check=True, capture_output=True).stdout)
    clear = [*gpg, "--clearsign"]
    archive.sign = lambda data: subprocess.run(clear, input=data, check=True, capture_output=True).stdout
    machines_apt(archive, tmp_path / "etc apt", f"signed-by={home}/key.gpg")
    archive.publish(archive.files[f"/debian/{archive.pin.path}"], NEWER)
    archive.valid_until[f"{RELEASE}-backports"] = "Sun, 02 Jan 2022 00:00:00 UTC"
    archive.drop(archive.pin, RELEASE)
    done = build(lull)
    assert done.returncode == 0, done.stderr
    left_out = (
        f"left out: {RELEASE}-backports: the package indexes could not be fetched: the index of a suite has expired"
    )
    assert left_out in done.stderr, done.stderr


def test_a_proxy_that_wants_a_login(lull: Tool, archive: Archive) -> None:
    """A web page in place of everything: exit 7 and one sentence; afterwards it works."""
    archive.trouble = "page"
    done = build(lull)
    assert done.returncode == 7, done.stderr
    assert "a web page came in place of a file: does a proxy want a login?" in done.stderr
    doctor = lull("doctor", "--base", lull.environment["TEST_BASE"])
    assert doctor.returncode == 3, doctor.stdout
    archive.trouble = ""
    assert build(lull).returncode == 0


def test_the_cache_of_an_older_version(lull: Tool, archive: Archive) -> None:
    """Its entries with absolute paths are used where they are; what is half-written or malformed is made anew."""
    assert build(lull).returncode == 0
    index = lull.cache / "fetched.json"
    raw = json.loads(index.read_text())
    ((name, entry),) = raw.items()
    assert not entry["path"].startswith("/")
    index.write_text(json.dumps({name: {**entry, "path": str(lull.cache / entry["path"])}}))
    requests = len(archive.requests)
    assert build(lull, "--offline").returncode == 0 and len(archive.requests) == requests
    for half in ("[1]", '{"x', json.dumps({name: "6.12"}), json.dumps({name: {**entry, "path": "/gone"}})):
        index.write_text(half)
        (lull.cache / "fetch" / "old.part").mkdir(exist_ok=True)
        assert build(lull).returncode == 0
        assert json.loads(index.read_text())[name] == entry


def test_a_moved_cache(lull: Tool, archive: Archive, tmp_path: Path) -> None:
    """It needs no network."""
    assert build(lull).returncode == 0
    requests = len(archive.requests)
    moved = lull.cache.rename(tmp_path / "moved")
    lull.environment["LULL_CACHE"] = str(moved)
    done = build(lull, "--offline")
    assert done.returncode == 0, done.stderr
    assert len(archive.requests) == requests and not lull.cache.exists()


def test_doctor_says_where_it_would_come_from(lull: Tool, archive: Archive) -> None:
    """The pool, and then the cache; nothing is downloaded."""
    found = lull("doctor", "--base", lull.environment["TEST_BASE"]).stdout
    assert f"6.12.0-1, from {archive.url}/{archive.pin.path}" in found
    assert not list(lull.cache.glob("fetch/*"))
    assert build(lull).returncode == 0
    assert "6.12.0-1, in the cache" in lull("doctor", "--base", lull.environment["TEST_BASE"]).stdout


def test_a_word_that_names_no_file(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """LULL_ARCHIVES with a URL that would be the same for each file."""
    for word in ("http://x/debian", "http://x/{name}"):
        monkeypatch.setenv("LULL_ARCHIVES", word)
        with pytest.raises(UsageError, match="names no file"):
            pins.templates()


def test_a_disk_of_pinned_packages(
    tools: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are used though newer ones are there. A package without a pin is refused."""
    files = {
        "usr/share/base-passwd/passwd.master": "root:*:0:0::/:/bin/sh\n",
        "usr/share/base-passwd/group.master": "root:*:0:\n",
    }
    root = write_files(tmp_path / "tree", files)
    deb = build_deb(root, tmp_path / "base-passwd.deb").read_bytes()
    pin = tools.publish(deb, "1.0-1", "base-passwd")
    tools.publish(deb, "1.0-2", "base-passwd")
    image = userland.build(Store(), Userland(("base-passwd",)), [pin])
    assert (image.parent / "packages").read_text() == f"base-passwd_1.0-1_all.deb {pin.sha256}\n"
    with pytest.raises(UsageError, match="tool has no pinned version"):
        userland.build(Store(), Userland(("base-passwd", "tool")), [pin])
    monkeypatch.setattr(userland, "SUITES", (RELEASE,))
    tools.drop(pin, RELEASE)
    newer = userland.build(Store(), Userland(("base-passwd",)), [Pin(pin.path, "0" * 64)])
    assert "base-passwd_1.0-2_all.deb" in (newer.parent / "packages").read_text()
    assert "using the newest packages instead" in capsys.readouterr().err


def test_pinning(lull: Tool, archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest package takes the place of the pinned one in the base's file."""
    monkeypatch.setenv("APT_CONFIG", lull.environment["APT_CONFIG"])
    write_base(lull, "https://x/pub/linux-6.12.0.tar.xz")
    file = Path(lull.environment["TEST_BASE"])
    pin = archive.publish(archive.files[f"/debian/{archive.pin.path}"], NEWER)
    assert pinning.pin_source(Store(), bases.load_base(str(file)), file) == pin
    found = bases.load_base(str(file)).source
    assert found.pin == Pin(pin.path, pin.sha256, pin.sha1) and found.tested == "6.12.9"
    assert found.release == "https://x/pub/linux-6.12.9.tar.xz"
    with pytest.raises(FetchError, match=r"linux-source-9\.9"):
        file.write_text(file.read_text().replace(f'"{PACKAGE}"', '"linux-source-9.9"'))
        pinning.pin_source(Store(), bases.load_base(str(file)), file)


def test_everything_is_pinned() -> None:
    """Each base has a source, both kinds of hosts a QEMU, and each disk all of its packages."""
    for name in bases.known():
        source = bases.load_base(name).source
        assert source.pin and source.sha1 and source.suites and source.tested in source.release
    for group in (*(f"{tool}-{host}" for tool in ("qemu", "busybox") for host in pinning.HOSTS), "libraries"):
        assert pins.load_pins(group), group
    for file in pinning.DISKS:
        userland.check_pins(userland.load_userland(file), pins.load_pins(file.parent.name))
    assert (REPOSITORY / "guest/pins.txt").read_text().startswith("# SPDX")
