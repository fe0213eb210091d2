# SPDX-License-Identifier: GPL-2.0-only
"""A Lull kernel as Debian packages, by the kernel's own ``make bindeb-pkg``."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lull import cache
from lull.base import Base
from lull.errors import BuildError, MissingError, UsageError
from lull.kernel import message, switches
from lull.kernel.build import Builder, asked_options, fragments_text, kconfig_reason, kernel_key
from lull.kernel.toolchain import Toolchain
from lull.kernel.tree import Tree, waiting
from lull.progress import progress
from lull.requirements import Requirement, apt_line, missing

SUFFIX = "-lull"
"""Behind the kernel's version, and so in the packages' names: they stand beside the distribution's own."""
SMALL_GIB, WHOLE_GIB = 2.0, 25.0
"""Free space that a build of the lab's configuration needs, and of a distribution's."""
DOCUMENT = "README.lull"
SOURCE = "linux-upstream"
TARGET_SSL = Path("/usr/include/aarch64-linux-gnu/openssl")
"""Where libssl-dev:arm64 is, on a machine of another architecture."""
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
"""What a configuration needs more, by the option that does."""
KEYS = ("CONFIG_SYSTEM_TRUSTED_KEYS", "CONFIG_SYSTEM_REVOCATION_KEYS")
"""Files that a distribution's own source has, and Linux's has not."""
REMEDY = "name one of an arm64 kernel: /boot/config-VERSION, unpacked"
COMPILER = re.compile(
    r"CONFIG_(HAVE_|TOOLS_SUPPORT_|(AS|CC|CLANG|GCC\d*|LD|LLD|PAHOLE|RUSTC)_(CAN|HAS|IS|NO|VERSION)[_=])"
)
"""Options that nobody chooses: what the compiler can do, and what follows from it."""


@dataclass(frozen=True)
class Configuration:
    """What a packaged kernel is configured from.

    Args:
        text: a whole configuration, or fragments.
        whole: which of the two.
        wanted: options of ``text`` that may not be dropped.
    """

    text: str
    whole: bool
    wanted: frozenset[str] = frozenset()


def small(base: Base) -> Configuration:
    """The configuration of the lab's Lull kernel."""
    return Configuration(fragments_text(base.kernels["lull"].fragments), whole=False)


def read(path: Path) -> str:
    """The user's configuration. Raises UsageError when it is none for arm64."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise UsageError(f"the configuration cannot be read: {reason}", where=str(path), remedy=REMEDY) from error
    found = re.search(r"(?m)^# Linux/(\w+) ", text)
    if not asked_options(text) or (found and found.group(1) != "arm64"):
        what = f"for {found.group(1)}" if found else "none of a kernel"
        raise UsageError(f"the configuration is {what}", where=str(path), remedy=REMEDY)
    return text


def of_user(text: str, base: Base, tree: Tree) -> Configuration:
    """A whole configuration with what makes a Lull kernel of it."""
    stock = base.kernels["stock"].fragments
    ours = fragments_text([f for f in base.kernels["lull"].fragments if f not in stock])
    return Configuration(
        f"{text}\n{without_keys(text, tree.path)}{ours}", whole=True, wanted=frozenset(asked_options(ours))
    )


def without_keys(text: str, tree: Path) -> str:
    """Lines that take back the options which name a file that ``tree`` does not have."""
    named = {option: value.strip('"') for option, value in asked_options(text).items() if option in KEYS}
    return "".join(f'{option}=""\n' for option, value in named.items() if value and not (tree / value).exists())


def document(base: Base, version: str) -> str:
    """What is installed in /usr/share/doc: each feature's switch, policies, boot parameter and counters."""
    features = list(base.exported().values())
    head = f"""# What can be switched in Linux {version}{SUFFIX}

Write a policy to a file to choose it, at any time, as root; read it to see which there are, and the [chosen] one. A
boot parameter chooses what it boots with. Without CONFIG_LULL_... of its name a feature is not in the kernel at all.

{switches.table(features)}

What each does follows."""
    sections = "\n\n\n".join(message.text(section) for section in map(switches.section, features))
    title, text = message.split(head)
    return f"{title}\n\n{message.text(text)}\n\n\n{sections}\n"


def variables(tree: Tree) -> list[str]:
    """What the kernel's makefiles are told about the packages."""
    # -d: Packager.check() asks for what a configuration needs; Debian's list has the target's, too.
    # The makefiles make debian/ anew and start dpkg-buildpackage, which runs the hook before it builds: debian/docs is
    # debhelper's list of what the first package, the kernel's, has in its folder of /usr/share/doc.
    return [
        f"LOCALVERSION={SUFFIX}",
        f"KDEB_SOURCENAME={SOURCE}",
        f"KDEB_PKGVERSION={tree.version}-1",
        "KDEB_CHANGELOG_DIST=unstable",
        f"DPKG_FLAGS=-d --hook-build='echo {DOCUMENT} >debian/docs'",
    ]


class Packager:
    """Makes the packages of one kernel in a folder.

    Args:
        tree: the source, features applied; only read.
        toolchain: compiler.
        folder: takes the packages; objects are below it.
        debug: make a package of debug symbols, too.
        log: takes every command and its output.
        say: told what people should know.
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
        """Configure the kernel; say what of a whole configuration is dropped. Raises BuildError where it is Lull's."""
        if not configuration.whole:
            self.builder.configure(configuration.text)
            return
        dropped = [d for d in self.builder.configure_from(configuration.text) if not COMPILER.match(d)]
        lost = [d for d in dropped if d.partition("=")[0] in configuration.wanted]
        if lost:
            reasons = "\n".join(f"{d}  {kconfig_reason(self.builder.tree.path, d)}" for d in lost)
            raise BuildError(
                "this configuration cannot have Lull's features", tail=reasons, remedy="add what they depend on"
            )
        if dropped:
            self.say(f"of the configuration Kconfig dropped {len(dropped)} option(s), which this kernel has otherwise:")
            self.say("\n".join(f"  {d}" for d in dropped))

    def check(self) -> None:
        """Raise MissingError for packages that this configuration needs, UsageError if it has no debug symbols."""
        have = asked_options((self.out / ".config").read_text())
        wanted = [*ALWAYS, *(r for option, more in WHEN.items() if have.get(option) == "y" for r in more)]
        if packages := missing(wanted):
            raise MissingError(f"to make packages wants {', '.join(packages)}", remedy=apt_line(packages))
        if self.debug and have.get("CONFIG_DEBUG_INFO") != "y":
            raise UsageError(
                "this kernel has no debug symbols",
                remedy="turn CONFIG_DEBUG_INFO_DWARF_TOOLCHAIN_DEFAULT on in --config",
            )

    def left_out(self) -> list[str]:
        """The kernel's build profiles for packages that are not made.

        That of headers has programs for the target in it, and sign-file among those needs a library for the target.
        """
        left = [] if self.debug else ["nokerneldbg"]
        have = asked_options((self.out / ".config").read_text())
        if self.builder.toolchain.prefix and have.get("CONFIG_MODULE_SIG_FORMAT") == "y" and not TARGET_SSL.exists():
            self.say("no package of headers is made: sign-file in it wants libssl-dev:arm64")
            left.append("nokernelheaders")
        return left

    def build(self, text: str) -> None:
        """Compile everything, and make the packages, the one with the kernel with the document ``text``."""
        (self.out / DOCUMENT).write_text(text)
        profiles = [f"pkg.{SOURCE}.{name}" for name in self.left_out()]
        environment = {
            "DEB_BUILD_OPTIONS": "terse",
            "DEB_BUILD_PROFILES": " ".join(profiles),
            "DEBFULLNAME": "Lull",
            "DEBEMAIL": "lull@localhost",
        }
        with progress.step(f"building packages of Linux {self.builder.tree.version}{SUFFIX}") as step:
            self.builder.compile(step.update, *variables(self.builder.tree), "bindeb-pkg", env=environment)


def packages(
    tree: Tree,
    base: Base,
    configuration: Configuration,
    toolchain: Toolchain,
    *,
    debug: bool = False,
    say: Callable[[str], None],
) -> list[Path]:
    """A Lull kernel's packages, from the cache or made: its own, headers if it has modules, debug symbols if asked.

    linux-libc-dev, which bindeb-pkg makes as well, is none of them: it would take the distribution's place.

    Raises: BuildError, MissingError, UsageError; an interrupted build is continued.
    """
    text = document(base, tree.version)
    key = cache.key_of(kernel_key(tree, toolchain, configuration.text), text, str(debug), *variables(tree))

    def make(part: Path) -> None:
        cache.need_space(part, WHOLE_GIB if configuration.whole else SMALL_GIB, "building packages")
        log = cache.root() / "deb" / f"lull-{key}.log"
        log.unlink(missing_ok=True)
        packager = Packager(tree, toolchain, part, log, say, debug=debug)
        packager.configure(configuration)
        packager.check()
        packager.build(text)
        for other in part.glob("*"):
            if other.suffix != ".deb" or other.name.startswith("linux-libc-dev"):
                shutil.rmtree(other) if other.is_dir() else other.unlink()
        shutil.copyfile(log, part / "build.log")
        log.unlink()

    return sorted(cache.make_entry("deb", f"lull-{key}", make, resume=True, waiting=waiting).glob("*.deb"))


def publish(found: Sequence[Path], out: Path) -> list[Path]:
    """Copy packages to the folder ``out``, each whole or not at all."""
    for package in found:
        cache.write_atomic(out / package.name, package.read_bytes())
    return [out / package.name for package in found]
