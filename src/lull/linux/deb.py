# SPDX-License-Identifier: GPL-2.0-only
"""`lull deb`: build a Lull kernel as Debian packages, with the kernel's own ``make bindeb-pkg``.

The kernel has the lab's configuration, or one of the user's with Lull's options added.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lull import cache
from lull.base import Base
from lull.errors import BuildError, UsageError
from lull.linux import series
from lull.linux.build import Builder, asked_options, fragments_text, kconfig_reason, kernel_key
from lull.linux.toolchain import Toolchain
from lull.linux.tree import Tree
from lull.progress import progress
from lull.requirements import Requirement, require

LULL, STOCK = "lull", "stock"
"""The kernels of a base that are packaged."""
SUFFIX = f"-{LULL}"
"""Follows the kernel's version, also in the packages' names: they can be installed beside the distribution's."""
SMALL_GIB, WHOLE_GIB = 2.0, 25.0
"""GiB of free space that a build needs: with the lab's configuration, and with a distribution's."""
DOCUMENT = "README.lull"
SOURCE = "linux-upstream"
TARGET_SSL = Path("/usr/include/aarch64-linux-gnu/openssl")
"""Headers of libssl-dev:arm64 on a machine of another architecture."""
ALWAYS = [
    Requirement("dpkg-dev", "dpkg-buildpackage", "building packages"),
    Requirement("debhelper", "dh_builddeb", "the same"),
    Requirement("rsync", "rsync", "the kernel's headers"),
]
WHEN = {
    "CONFIG_MODULES": [Requirement("kmod", "/usr/sbin/depmod", "modules")],
    "CONFIG_SYSTEM_TRUSTED_KEYRING": [Requirement("libssl-dev", "/usr/include/openssl/ssl.h", "certificates")],
    "CONFIG_MODULE_SIG": [Requirement("openssl", "openssl", "signing modules")],
    "CONFIG_DEBUG_INFO_BTF": [Requirement("libelf-dev", "/usr/include/libelf.h", "BTF")],
    "CONFIG_IKHEADERS": [Requirement("cpio", "cpio", "headers in the kernel")],
}
"""Option of the configuration -> packages of the machine that a build with this option needs."""
KEYS = ("CONFIG_SYSTEM_TRUSTED_KEYS", "CONFIG_SYSTEM_REVOCATION_KEYS")
"""Options that name key files, which a distribution's source has but Linux's has not."""
REMEDY = "name one of an arm64 kernel: /boot/config-VERSION, unpacked"
COMPILER = re.compile(
    r"CONFIG_(HAVE_|TOOLS_SUPPORT_|(AS|CC|CLANG|GCC\d*|LD|LLD|PAHOLE|RUSTC)_(CAN|HAS|IS|NO|VERSION)[_=])"
)
"""Options that Kconfig sets from what the compiler can do; no one chooses them."""


@dataclass(frozen=True)
class Configuration:
    """The configuration of a packaged kernel.

    Args:
        text: a whole .config, or fragments.
        whole: True for a whole .config.
        wanted: options of ``text`` that Kconfig must not drop.
    """

    text: str
    whole: bool
    wanted: frozenset[str] = frozenset()


def small(base: Base) -> Configuration:
    """The configuration of the lab's Lull kernel."""
    return Configuration(fragments_text(base.kernels[LULL].fragments), whole=False)


def read_config(path: Path) -> str:
    """The text of the user's configuration. Raises UsageError when it cannot be read or is not one for arm64."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not a text file"
        raise UsageError(f"the configuration cannot be read: {reason}", where=str(path), remedy=REMEDY) from error
    found = re.search(r"(?m)^# Linux/(\w+) ", text)
    if not asked_options(text) or (found and found.group(1) != "arm64"):
        what = f"for {found.group(1)}" if found else "none of a kernel"
        raise UsageError(f"the configuration is {what}", where=str(path), remedy=REMEDY)
    return text


def config_of_user(text: str, base: Base, tree: Tree, kernel: str = LULL) -> Configuration:
    """The user's configuration ``text`` with the options that the features of ``kernel`` need: stock needs none."""
    stock = base.kernels[STOCK].fragments
    ours = fragments_text([f for f in base.kernels[kernel].fragments if f not in stock])
    return Configuration(
        f"{text}\n{without_keys(text, tree.path)}{ours}", whole=True, wanted=frozenset(asked_options(ours))
    )


def without_keys(text: str, tree: Path) -> str:
    """Configuration lines that empty those options among KEYS whose file ``tree`` does not have."""
    named = {option: value.strip('"') for option, value in asked_options(text).items() if option in KEYS}
    return "".join(f'{option}=""\n' for option, value in named.items() if value and not (tree / value).exists())


def document(base: Base, release: str) -> str:
    """The text of README.lull in /usr/share/doc: boot parameters, and the cover letter of each feature."""
    features = list(base.exported().values())
    lines = [f"What was added to Linux {release}", "", "Boot parameters, each with the feature that it controls:", ""]
    lines += [f"  {f.boot}=   {f.name}: {', '.join(f.policies)}; default {f.default}" for f in features if f.boot]
    letters = [f"\n\n{feature.name}: {series.description(feature.letter)}" for feature in features]
    return "\n".join(lines) + "\n" + "".join(letters)


def variables(tree: Tree, suffix: str, *, documented: bool) -> list[str]:
    """The variables for the kernel's make that concern packages.

    Args:
        suffix: follows the version.
        documented: the kernel's package has DOCUMENT.
    """
    # -d: dpkg-buildpackage does not check build dependencies, because its list also has packages of the target's
    # architecture. Packager.check() checks those that the configuration needs.
    # --hook-build: the makefiles create debian/ anew and start dpkg-buildpackage, which runs this command before it
    # builds. debian/docs is debhelper's list of documents for the first package, which is the kernel's.
    return [
        f"LOCALVERSION={suffix}",
        f"KDEB_SOURCENAME={SOURCE}",
        f"KDEB_PKGVERSION={tree.version}-1",
        "KDEB_CHANGELOG_DIST=unstable",
        f"DPKG_FLAGS=-d --hook-build='echo {DOCUMENT} >debian/docs'" if documented else "DPKG_FLAGS=-d",
    ]


class Packager:
    """Makes the packages of one kernel in a folder.

    Args:
        tree: the source with features applied; it is only read.
        toolchain: the compiler.
        folder: takes the packages, and in a subfolder the objects.
        log: takes every command and its output.
        say: called with messages for the user.
        debug: also make a package of debug symbols.
    """

    def __init__(
        self, tree: Tree, toolchain: Toolchain, folder: Path, log: Path, say: Callable[[str], None], *, debug: bool
    ) -> None:
        self.out = folder / "objects"
        self.out.mkdir(exist_ok=True)
        self.builder = Builder(tree, toolchain, self.out, log)
        self.debug = debug
        self.say = say

    def configure(self, configuration: Configuration) -> None:
        """Configure the kernel. Tell the user which options of a whole configuration Kconfig dropped.

        Raises: BuildError when Kconfig dropped one of Lull's options.
        """
        if not configuration.whole:
            self.builder.configure(configuration.text)
            return
        dropped = [d for d in self.builder.configure_from(configuration.text) if not COMPILER.match(d)]
        lost = [d for d in dropped if d.partition("=")[0] in configuration.wanted]
        if lost:
            reasons = "\n".join(f"{d}  {kconfig_reason(self.builder.tree.path, d)}" for d in lost)
            raise BuildError(
                "Kconfig dropped options of Lull's features from this configuration",
                tail=reasons,
                remedy="add the options that they depend on to the file of --config",
            )
        if dropped:
            self.say(f"Kconfig dropped {len(dropped)} option(s) of the configuration, or gave them other values:")
            self.say("\n".join(f"  {d}" for d in dropped))

    def check(self) -> None:
        """Raise MissingError when packages that the build needs are not installed.

        Raise UsageError when a package of debug symbols is asked for and the configuration makes none.
        """
        have = asked_options((self.out / ".config").read_text())
        wanted = [*ALWAYS, *(r for option, more in WHEN.items() if have.get(option) == "y" for r in more)]
        require("making packages", wanted)
        if self.debug and have.get("CONFIG_DEBUG_INFO") != "y":
            raise UsageError(
                "this configuration makes no debug symbols",
                remedy="enable CONFIG_DEBUG_INFO_DWARF_TOOLCHAIN_DEFAULT in the file of --config",
            )

    def left_out(self) -> list[str]:
        """The kernel's build profiles that leave packages out.

        The package of headers is left out when it cannot be built: it contains sign-file, a program for the target,
        which needs libssl-dev of the target's architecture. With LLVM, kbuild compiles its programs for this machine.
        """
        left = [] if self.debug else ["nokerneldbg"]
        have = asked_options((self.out / ".config").read_text())
        why = ""
        if self.builder.toolchain.llvm and have.get("CONFIG_MODULES") == "y":
            why = "with LLVM its programs would be for this machine's architecture"
        elif have.get("CONFIG_MODULE_SIG_FORMAT") == "y" and not TARGET_SSL.exists():
            why = "its program sign-file needs libssl-dev:arm64"
        if self.builder.toolchain.prefix and why:
            self.say(f"no package of headers is made: {why}")
            left.append("nokernelheaders")
        return left

    def build(self, text: str, suffix: str) -> None:
        """Compile the kernel and make the packages.

        Args:
            text: the document of the kernel's package; empty: it has none.
            suffix: follows the version.
        """
        (self.out / DOCUMENT).write_text(text)
        profiles = [f"pkg.{SOURCE}.{name}" for name in self.left_out()]
        environment = {
            "DEB_BUILD_OPTIONS": "terse",
            "DEB_BUILD_PROFILES": " ".join(profiles),
            "DEBFULLNAME": "Lull",
            "DEBEMAIL": "lull@localhost",
        }
        with progress.step(f"building packages of Linux {self.builder.tree.version}{suffix}") as step:
            words = variables(self.builder.tree, suffix, documented=bool(text))
            self.builder.compile(step.update, *words, "bindeb-pkg", env=environment)


def packages(
    tree: Tree,
    base: Base,
    configuration: Configuration,
    toolchain: Toolchain,
    *,
    debug: bool = False,
    say: Callable[[str], None],
    kernel: str = LULL,
    flavour: str = "",
) -> list[Path]:
    """The packages of a kernel, from the cache or built: the kernel, headers if it has modules, debug symbols.

    linux-libc-dev, which bindeb-pkg also makes, is left out, because it would replace the distribution's package.
    An interrupted build is continued.

    Args:
        tree: the source with features applied.
        debug: also make the package of debug symbols.
        say: called with messages for the user.
        kernel: LULL, or STOCK for a comparison; it is part of the release.
        flavour: part of the release, too.

    Raises: BuildError, MissingError, UsageError.
    """
    suffix = f"-{flavour}-{kernel}" if flavour else f"-{kernel}"
    text = document(base, f"{tree.version}{suffix}") if kernel == LULL else ""
    words = variables(tree, suffix, documented=bool(text))
    key = cache.key_of(kernel_key(tree, toolchain, configuration.text), text, str(debug), *words)

    def make(part: Path) -> None:
        cache.need_space(part, WHOLE_GIB if configuration.whole else SMALL_GIB, "building packages")
        log = cache.root() / "deb" / f"{kernel}-{key}.log"
        log.unlink(missing_ok=True)
        packager = Packager(tree, toolchain, part, log, say, debug=debug)
        packager.configure(configuration)
        packager.check()
        packager.build(text, suffix)
        for other in part.glob("*"):
            if other.suffix != ".deb" or other.name.startswith("linux-libc-dev"):
                shutil.rmtree(other) if other.is_dir() else other.unlink()
        shutil.copyfile(log, part / "build.log")
        log.unlink()

    return sorted(cache.make_entry("deb", f"{kernel}-{key}", make, resume=True).glob("*.deb"))


def publish(found: Sequence[Path], out: Path) -> list[Path]:
    """Copy packages to the folder ``out``, each in one step, and return the copies."""
    for package in found:
        cache.write_atomic(out / package.name, package.read_bytes())
    return [out / package.name for package in found]
