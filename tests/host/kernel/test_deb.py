# SPDX-License-Identifier: GPL-2.0-only
"""Debian packages: of which configuration, with which document, and that they boot."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support import FAKE

from lull import base as bases
from lull.errors import BuildError, MissingError, UsageError
from lull.guest.qemu import Machine
from lull.guest.runner import launch_retrying
from lull.kernel import deb, switches, toolchain, tree
from lull.kernel.build import asked_options
from lull.lab import Lab
from lull.requirements import Requirement, missing

BASE = bases.load()
needs_packagers = pytest.mark.skipif(bool(missing(deb.ALWAYS)), reason=f"wants {', '.join(missing(deb.ALWAYS))}")


def fake_packages(fake_tree: Path, configuration: str, said: list[str], tmp_path: Path) -> list[Path]:
    """Packages of the fake kernel, configured from a file."""
    base = bases.load(str(FAKE / "bases/fake.toml"))
    source = tree.apply_features(tree.of_user(fake_tree, base), base.features_of("lull"))
    config = tmp_path / "config"
    config.write_text(configuration)
    return deb.packages(source, base, deb.of_user(deb.read(config), base, source), toolchain.find(), say=said.append)


def contents(package: Path, folder: Path) -> Path:
    """Where a package is unpacked."""
    subprocess.run(["dpkg-deb", "-x", package, folder], check=True)
    return folder


@needs_packagers
def test_packages_of_the_fake_kernel(fake_tree: Path, tmp_path: Path) -> None:
    """The kernel's package with its document; what is dropped is said; what replaces the distribution's is left out."""
    said: list[str] = []
    found = fake_packages(fake_tree, "CONFIG_FAKE=y\nCONFIG_WISH=m\nCONFIG_CC_VERSION_TEXT=1\n", said, tmp_path)
    assert [p.name for p in found] == ["linux-image-6.12.0-lull_6.12.0-1_arm64.deb"]
    assert "CONFIG_WISH=m (is n)" in "".join(said) and "CC_VERSION" not in "".join(said)
    place = contents(found[0], tmp_path / "root") / "usr/share/doc/linux-image-6.12.0-lull"
    assert "/sys/kernel/mm/lull/fast" in (place / deb.DOCUMENT).read_text()
    assert (place / "Image").stat().st_size > 0
    published = deb.publish(found, tmp_path / "new/out put")
    assert published[0].read_bytes() == found[0].read_bytes()
    # From the cache: nothing is configured, so nothing is said.
    said.clear()
    assert fake_packages(fake_tree, "CONFIG_FAKE=y\nCONFIG_WISH=m\nCONFIG_CC_VERSION_TEXT=1\n", said, tmp_path) == found
    assert not said


def test_missing_packages_are_named_at_once(fake_tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is always wanted, and what this configuration wants, in one line; before anything is compiled."""
    monkeypatch.setattr(deb, "ALWAYS", [Requirement("first-package", "no-such-program", "")])
    monkeypatch.setattr(deb, "WHEN", {"CONFIG_FAKE": [Requirement("second-package", "/no/such/file", "")]})
    with pytest.raises(MissingError) as caught:
        fake_packages(fake_tree, "CONFIG_FAKE=y\n", [], tmp_path)
    assert "apt-get install --no-install-recommends first-package second-package" in caught.value.remedy


@pytest.mark.parametrize("text", ["", "no options\n", "# Linux/x86 6.12.1 Kernel Configuration\nCONFIG_X=y\n"])
def test_what_is_no_configuration(text: str, tmp_path: Path) -> None:
    """Of another architecture, or of nothing."""
    (tmp_path / "config").write_text(text)
    with pytest.raises(UsageError, match="configuration is"):
        deb.of_user(deb.read(tmp_path / "config"), BASE, tree.Tree(tmp_path, "", "6.12.0"))


def test_a_configuration_of_a_distribution(tmp_path: Path) -> None:
    """Lull is turned on in it, and keys are left out that only the distribution's own source has."""
    (tmp_path / "config").write_text(
        "# Linux/arm64 6.12.1 Kernel Configuration\n# CONFIG_LULL is not set\n"
        'CONFIG_SYSTEM_TRUSTED_KEYS="debian/certs/x.pem"\nCONFIG_SYSTEM_REVOCATION_KEYS="config"\n'
    )
    found = deb.of_user(deb.read(tmp_path / "config"), BASE, tree.Tree(tmp_path, "", "6.12.0"))
    assert asked_options(found.text) == {
        "CONFIG_LULL": "y",
        "CONFIG_SYSTEM_TRUSTED_KEYS": '""',
        "CONFIG_SYSTEM_REVOCATION_KEYS": '"config"',
    }
    assert found.wanted == {"CONFIG_LULL"}


def test_the_document_has_every_switch() -> None:
    """With its policies, boot parameter and counters, in lines that a terminal shows."""
    text = deb.document(BASE, "6.12.0")
    words = set(text.replace(",", " ").replace(".", " ").split())
    for feature in BASE.exported().values():
        assert set(switches.counters(feature)) <= words
        if feature.policies:
            assert {f"/sys/kernel/mm/lull/{feature.name}", f"lull_{feature.name}=POLICY", *feature.policies} <= words
            assert f"It boots with {feature.default};" in " ".join(text.split())
    assert "unsafe" not in words  # a policy of the lab kernel
    assert max(map(len, text.splitlines())) <= 75


@pytest.mark.guest
def test_real_configurations(lab: Lab, tmp_path: Path) -> None:
    """arm64's own default gets all features, and what Kconfig does not know is said; without sysfs there are none."""
    source = lab.tree_of("lull")
    usual = (source.path / "arch/arm64/configs/defconfig").read_text()
    said: list[str] = []

    def configured(text: str) -> dict[str, str]:
        (tmp_path / "config").write_text(text)
        packager = deb.Packager(source, lab.toolchain, tmp_path, tmp_path / "log", said.append, debug=False)
        packager.configure(deb.of_user(deb.read(tmp_path / "config"), lab.base, source))
        return asked_options((packager.out / ".config").read_text())

    have = configured(f"{usual}\nCONFIG_NO_SUCH_THING=y\n")
    assert all(have[f"CONFIG_LULL{name}"] == "y" for name in ("", "_RESIDENCY", "_TEARDOWN", "_VMEMMAP"))
    assert "CONFIG_NO_SUCH_THING=y (is n)" in "".join(said)
    with pytest.raises(BuildError, match="dropped options of Lull") as caught:
        configured("CONFIG_EXPERT=y\n# CONFIG_SYSFS is not set\n")
    assert "depends on SYSFS" in caught.value.tail


@pytest.mark.guest
@pytest.mark.whole
@needs_packagers
def test_a_package_boots(lab: Lab, tmp_path: Path) -> None:
    """The packages of the small configuration: what is in them, and the kernel in them boots with its switches."""
    found = deb.packages(lab.tree_of("lull"), lab.base, deb.small(lab.base), lab.toolchain, say=print)
    release = f"{lab.pristine.version}{deb.SUFFIX}"
    assert found[0].name.startswith(f"linux-image-{release}_")
    listing = subprocess.run(["dpkg-deb", "-c", found[0]], capture_output=True, text=True, check=True).stdout
    for name in (f"boot/vmlinuz-{release}", f"boot/config-{release}", f"doc/linux-image-{release}/README.lull.gz"):
        assert name in listing
    image = contents(found[0], tmp_path / "root") / f"boot/vmlinuz-{release}"
    outcome = launch_retrying(
        lab.guest_of(image, Machine(vcpus=2), "", None),
        "program cat /sys/kernel/mm/lull/residency\n",
        tmp_path / "boot",
        job_seconds=lambda n: 60,
        tell=print,
        say=print,
    )
    assert outcome.done == 0 and outcome.kernel == release
