# SPDX-License-Identifier: GPL-2.0-only
"""Debian packages of real kernels: their options, their files, and whether they boot."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support import LOCAL, unpack_deb

from lull.errors import BuildError
from lull.guest.qemu import Machine
from lull.guest.runner import launch_retrying
from lull.lab import Lab
from lull.linux import deb
from lull.linux.build import asked_options
from lull.requirements import missing

needs_packagers = pytest.mark.skipif(bool(missing(deb.ALWAYS)), reason=f"wants {', '.join(missing(deb.ALWAYS))}")


def test_real_configurations(lab: Lab, tmp_path: Path) -> None:
    """arm64's own default gets all features, and what Kconfig does not know is said; without sysfs there are none."""
    source = lab.tree_of("lull")
    usual = (source.path / "arch/arm64/configs/defconfig").read_text()
    said: list[str] = []

    def configured(text: str) -> dict[str, str]:
        (tmp_path / "config").write_text(text)
        packager = deb.Packager(source, lab.toolchain, tmp_path, tmp_path / "log", said.append, debug=False)
        packager.configure(deb.config_of_user(deb.read_config(tmp_path / "config"), lab.base, source))
        return asked_options((packager.out / ".config").read_text())

    have = configured(f"{usual}\nCONFIG_NO_SUCH_THING=y\n")
    assert all(have[f"CONFIG_{name}"] == "y" for name in ("LULL", "ARM64_TLB_RESIDENCY", "ARM64_HVO"))
    assert "CONFIG_NO_SUCH_THING=y (is n)" in "".join(said)
    with pytest.raises(BuildError, match="dropped options of Lull") as caught:
        configured("CONFIG_EXPERT=y\n# CONFIG_SYSFS is not set\n")
    assert "depends on SYSFS" in caught.value.tail


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
    image = unpack_deb(found[0], tmp_path / "root") / f"boot/vmlinuz-{release}"
    outcome = launch_retrying(
        lab.guest_of(image, Machine(vcpus=2), "", None),
        f"program cat /sys/kernel/mm/lull/{LOCAL}\n",
        tmp_path / "boot",
        job_seconds=lambda n: 60,
        tell=print,
        say=print,
    )
    assert outcome.done == 0 and outcome.kernel == release
