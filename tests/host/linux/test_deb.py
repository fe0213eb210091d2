# SPDX-License-Identifier: GPL-2.0-only
"""Debian packages: of which configuration, and with which document."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import FAKE, unpack_deb

from lull import base as bases
from lull.errors import MissingError, UsageError
from lull.linux import deb, series, toolchain, tree
from lull.linux.build import asked_options
from lull.requirements import Requirement, missing

BASE = bases.load_base()
needs_packagers = pytest.mark.skipif(bool(missing(deb.ALWAYS)), reason=f"wants {', '.join(missing(deb.ALWAYS))}")


@pytest.fixture(autouse=True)
def any_disk_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fake kernel needs no 25 GiB."""
    monkeypatch.setattr(deb, "WHOLE_GIB", 0.1)


def fake_packages(fake_tree: Path, configuration: str, said: list[str], tmp_path: Path) -> list[Path]:
    """Packages of the fake kernel, configured from a file."""
    base = bases.load_base(str(FAKE / "bases/fake.toml"))
    source = tree.apply_features(tree.of_user(fake_tree, base), base.features_of("lull"))
    config = tmp_path / "config"
    config.write_text(configuration)
    return deb.packages(
        source, base, deb.config_of_user(deb.read_config(config), base, source), toolchain.find(), say=said.append
    )


@needs_packagers
def test_packages_of_the_fake_kernel(fake_tree: Path, tmp_path: Path) -> None:
    """The kernel's package with its document; what is dropped is said; what replaces the distribution's is left out."""
    said: list[str] = []
    found = fake_packages(fake_tree, "CONFIG_FAKE=y\nCONFIG_WISH=m\nCONFIG_CC_VERSION_TEXT=1\n", said, tmp_path)
    assert [p.name for p in found] == ["linux-image-6.12.0-lull_6.12.0-1_arm64.deb"]
    assert "CONFIG_WISH=m (is n)" in "".join(said) and "CC_VERSION" not in "".join(said)
    place = unpack_deb(found[0], tmp_path / "root") / "usr/share/doc/linux-image-6.12.0-lull"
    assert "fast: fake: a tenth of the broadcasts" in (place / deb.DOCUMENT).read_text()
    assert (place / "Image").stat().st_size > 0
    published = deb.publish(found, tmp_path / "new/out put")
    assert published[0].read_bytes() == found[0].read_bytes()
    # From the cache: nothing is configured, so nothing is said.
    said.clear()
    assert fake_packages(fake_tree, "CONFIG_FAKE=y\nCONFIG_WISH=m\nCONFIG_CC_VERSION_TEXT=1\n", said, tmp_path) == found
    assert not said


@needs_packagers
def test_stock_beside_lull(fake_tree: Path, tmp_path: Path) -> None:
    """A package of stock has its own name, and no document."""
    base = bases.load_base(str(FAKE / "bases/fake.toml"))
    source = tree.apply_features(tree.of_user(fake_tree, base), base.features_of("stock"))
    config = deb.config_of_user("CONFIG_FAKE=y\n", base, source, deb.STOCK)
    assert (
        deb.config_of_user("CONFIG_X=y\n", BASE, source).text
        != deb.config_of_user("CONFIG_X=y\n", BASE, source, deb.STOCK).text
    )
    found = deb.packages(source, base, config, toolchain.find(), say=print, kernel=deb.STOCK, flavour="16k")
    assert [p.name for p in found] == ["linux-image-6.12.0-16k-stock_6.12.0-1_arm64.deb"]
    assert not list((unpack_deb(found[0], tmp_path / "root") / "usr/share/doc").rglob(f"{deb.DOCUMENT}*"))


@pytest.mark.parametrize(
    ("llvm", "prefix", "left"),
    [("", "cross-", []), ("-22", "", []), ("-22", "cross-", ["nokernelheaders"])],
)
def test_headers_of_a_kernel_of_clang(tmp_path: Path, llvm: str, prefix: str, left: list[str]) -> None:
    """They are left out, with the reason, where their programs would be of another architecture."""
    said: list[str] = []
    compiler = toolchain.Toolchain(prefix, "gcc", llvm=llvm)
    source = tree.Tree(tmp_path, "", "6.12.0")
    packager = deb.Packager(source, compiler, tmp_path, tmp_path / "log", said.append, debug=True)
    (packager.out / ".config").write_text("CONFIG_MODULES=y\n")
    assert packager.left_out() == left
    assert bool(said) == bool(left)


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
        deb.config_of_user(deb.read_config(tmp_path / "config"), BASE, tree.Tree(tmp_path, "", "6.12.0"))


def test_a_configuration_of_a_distribution(tmp_path: Path) -> None:
    """Lull is turned on in it, and keys are left out that only the distribution's own source has."""
    (tmp_path / "config").write_text(
        "# Linux/arm64 6.12.1 Kernel Configuration\n# CONFIG_LULL is not set\n"
        'CONFIG_SYSTEM_TRUSTED_KEYS="debian/certs/x.pem"\nCONFIG_SYSTEM_REVOCATION_KEYS="config"\n'
    )
    found = deb.config_of_user(deb.read_config(tmp_path / "config"), BASE, tree.Tree(tmp_path, "", "6.12.0"))
    assert asked_options(found.text) == {
        "CONFIG_LULL": "y",
        "CONFIG_ARM64_HVO": "y",
        "CONFIG_SYSTEM_TRUSTED_KEYS": '""',
        "CONFIG_SYSTEM_REVOCATION_KEYS": '"config"',
    }
    assert found.wanted == {"CONFIG_LULL", "CONFIG_ARM64_HVO"}


def test_the_document_has_every_feature() -> None:
    """With its boot parameter, and what its letter says; nothing of the lab's own."""
    text = deb.document(BASE, "6.12.0-lull")
    for feature in BASE.exported().values():
        assert f"\n{feature.name}: {series.description(feature.letter)}" in text
        if feature.boot:
            policies = ", ".join(feature.policies)
            assert f"  {feature.boot}=   {feature.name}: {policies}; default {feature.default}\n" in text
    assert "sticky" not in text and "A U Thor" not in text
