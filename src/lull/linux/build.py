# SPDX-License-Identifier: GPL-2.0-only
"""Build kernels: configure from fragments, check that nothing asked for was dropped, make, publish."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lull import cache, process
from lull.errors import BuildError
from lull.linux.toolchain import Toolchain, jobs
from lull.linux.tree import Tree
from lull.progress import progress

BUILD_GIB = 1.5
"""Free space a build needs, with a margin; objects are removed when it is done."""
PRODUCTS = {"System.map": "System.map", ".config": "config"}
"""Files of a build that are kept, besides the image -> their names in the cache."""
SANITIZERS = ("CONFIG_KASAN", "CONFIG_KCSAN")
SANITIZED = 4.0
CCACHE_SIZE = "2G"
"""The most that ccache keeps. A kernel of the lab takes 0.02 GiB there."""
# The same source gives the same bytes: no clock, no names of people and machines.
REPRODUCIBLE = ["KBUILD_BUILD_TIMESTAMP=@0", "KBUILD_BUILD_USER=lull", "KBUILD_BUILD_HOST=lull"]


@dataclass(frozen=True)
class Kernel:
    """A built kernel.

    Args:
        name: ``stock``, ``lull``, ...
        path: the cache entry: Image, System.map, config, build.log, build.json.
        version: its version as the tree says.
    """

    name: str
    path: Path
    version: str

    @property
    def image(self) -> Path:
        """The bootable image."""
        return self.path / "Image"

    @property
    def system_map(self) -> Path:
        """Its symbols."""
        return self.path / "System.map"

    @property
    def limit_factor(self) -> float:
        """How much longer than others it may take: one that looks at each access to memory is slow."""
        config = asked_options((self.path / "config").read_text())
        return SANITIZED if any(config.get(option) == "y" for option in SANITIZERS) else 1.0


def fragments_text(fragments: Sequence[Path]) -> str:
    """The fragments as one; later ones win, as with scripts/kconfig/merge_config.sh."""
    return "".join(f"# {f.name}\n{f.read_text()}\n" for f in fragments)


def asked_options(text: str) -> dict[str, str]:
    """Option -> value that fragments ask for (``n`` for 'is not set')."""
    asked: dict[str, str] = {}
    for line in text.splitlines():
        if match := re.match(r"# (CONFIG_\w+) is not set", line):
            asked[match.group(1)] = "n"
        elif match := re.match(r"(CONFIG_\w+)=(.*)", line):
            asked[match.group(1)] = match.group(2)
    return asked


def dropped_options(asked: dict[str, str], config: str) -> list[str]:
    """The options whose value in the final configuration is not what was asked, as ``CONFIG_X=y (is n)``."""
    have = asked_options(config)
    return [
        f"{option}={value} (is {have.get(option, 'n')})"
        for option, value in asked.items()
        if have.get(option, "n") != value
    ]


def kconfig_reason(tree: Path, option: str) -> str:
    """Where Kconfig defines ``option`` and what it depends on, for the message about a dropped one."""
    name = option.removeprefix("CONFIG_").partition("=")[0]
    done = process.complete(["grep", "-rn", "--include=Kconfig*", "-A14", "-E", rf"^\s*(menu)?config {name}$", tree])
    if done.status != 0:
        return "no Kconfig file defines it"
    place = done.output.splitlines()[0].partition(":config")[0].removeprefix(f"{tree}/").rpartition(":")[0]
    depends = re.findall(r"depends on (.*)", done.output.partition("\n--\n")[0])
    return f"{place}: depends on {' && '.join(depends)}" if depends else f"{place}: it is set by others"


@dataclass(frozen=True)
class Builder:
    """Builds one kernel in an output folder.

    Args:
        tree: source; only read.
        toolchain: compiler.
        out: the O= folder; an earlier interrupted build there is continued.
        log: takes every command and its output.
    """

    tree: Tree
    toolchain: Toolchain
    out: Path
    log: Path

    def environment(self) -> dict[str, str]:
        """Variables with which ccache keeps its objects in the cache, and finds those of the same source elsewhere.

        An object is found if the compiler would read the same files and has the same options. CCACHE_DEPEND: the names
        of these files come from the compiler, and nothing is preprocessed twice, which took 0.4 times the compiler's
        own time. CCACHE_NOHASHDIR: the folder in which the compiler runs does not count. The paths that it is given do.
        They are the same for all kernels if ``out`` is a folder in the tree, because kbuild then calls the tree "..".
        """
        folder = str(cache.root() / "ccache")
        return {"CCACHE_DIR": folder, "CCACHE_DEPEND": "1", "CCACHE_NOHASHDIR": "1", "CCACHE_MAXSIZE": CCACHE_SIZE}

    def make_command(self, *words: str) -> list[str]:
        """A make command line for this kernel."""
        start = ["make", "-C", str(self.tree.path), f"O={self.out}"]
        compiler = f"CC=ccache {self.toolchain.kernel_cc}"
        return [*start, *self.toolchain.make_variables(), compiler, *REPRODUCIBLE, *words]

    def configure(self, fragments: str) -> None:
        """Write .config: Kconfig's defaults with the fragments on top. Raises BuildError on a dropped option."""
        wanted = self.out / "lull.config"
        wanted.write_text(fragments)
        if dropped := self.dropped(fragments, f"KCONFIG_ALLCONFIG={wanted}", "alldefconfig"):
            reasons = "\n".join(f"{d}  {kconfig_reason(self.tree.path, d)}" for d in dropped)
            raise BuildError(
                f"Kconfig dropped {len(dropped)} option(s) the fragments ask for",
                tail=reasons,
                where=str(self.tree.path),
                remedy="take them out of the fragment, or add what they depend on",
            )

    def configure_from(self, config: str) -> list[str]:
        """Write .config from a whole configuration, Kconfig's defaults for what it does not name.

        Returns what Kconfig dropped of it, as ``dropped_options`` does.
        """
        (self.out / ".config").write_text(config)
        return self.dropped(config, "olddefconfig")

    def dropped(self, config: str, *words: str) -> list[str]:
        """Run make with ``words`` to configure; what of ``config`` was dropped, as ``dropped_options`` says it."""
        what = "the kernel could not be configured"
        process.run_logged(self.make_command(*words), self.log, env=self.environment(), error=BuildError, what=what)
        return dropped_options(asked_options(config), (self.out / ".config").read_text())

    def compile(self, tell: Callable[[str], None], *words: str, env: Mapping[str, str] | None = None) -> None:
        """Build the bootable image, or what ``words`` tell make instead; ``tell`` shows the object under way.

        Raises BuildError with the log's tail.
        """
        count = 0

        def line(text: str) -> None:
            nonlocal count
            if match := re.match(r"  (?:CC|AS|LD|AR|GEN|HOSTCC) +(?:\[.*\] )?(\S+)", text):
                count += 1
                tell(f"{count} {match.group(1)}")

        process.run_logged(
            self.make_command(f"-j{jobs()}", *(words or [Path(self.toolchain.image).name])),
            self.log,
            env={**self.environment(), **(env or {})},
            line=line,
            error=BuildError,
            what="the kernel does not build",
            remedy="the log has the compiler's words",
        )
        tell(f"{count} files")


def publish(builder: Builder, name: str, seconds: float, folder: Path) -> None:
    """Copy what ``builder`` built to ``folder``, each file in one step, and describe it in build.json.

    Args:
        seconds: what the build took.
    """
    for source, product in {builder.toolchain.image: "Image", **PRODUCTS}.items():
        cache.write_atomic(folder / product, (builder.out / source).read_bytes())
    description = {
        "kernel": name,
        "version": builder.tree.version,
        "compiler": builder.toolchain.kernel_version,
        "tree": builder.tree.key,
        "seconds": round(seconds, 1),
        "command": process.shown(builder.make_command(f"-j{jobs()}", Path(builder.toolchain.image).name)),
    }
    cache.write_atomic(folder / "build.json", json.dumps(description, indent=1) + "\n")


def kernel_key(tree: Tree, toolchain: Toolchain, fragments: str) -> str:
    """The content key of a build."""
    return cache.key_of(tree.key, toolchain.kernel_version, toolchain.prefix, fragments, *REPRODUCIBLE)


def linked_tree(tree: Tree, place: Path) -> Tree:
    """``tree`` at ``place``, by hard links, unless it is there already: to have the objects in a folder of it."""
    if not place.exists():
        part = incomplete(place)
        if part.exists():
            shutil.rmtree(part)
        process.run_logged(["cp", "-al", tree.path, part], place.with_name(f"{place.name}.log"))
        part.rename(place)
    return replace(tree, path=place)


def remove_tree(place: Path) -> None:
    """Remove what linked_tree() made, so that one half removed is not taken for a whole one after an interruption."""
    shutil.rmtree(place.rename(incomplete(place)))


def incomplete(place: Path) -> Path:
    """Where a tree is while it is being made or removed."""
    return place.with_name(f"{place.name}.part")


def build_kernel(
    name: str, tree: Tree, fragments: Sequence[Path], toolchain: Toolchain, tell: Callable[[str], None] | None = None
) -> Kernel:
    """The kernel ``name``, from the cache or built. Raises BuildError; the log stays in the cache.

    Args:
        tell: shows the object under way, in a step of the caller's; without it this is a step of its own.
    """
    text = fragments_text(fragments)
    key = kernel_key(tree, toolchain, text)

    def make(part: Path) -> None:
        cache.need_space(part, BUILD_GIB, "building a kernel")
        log = cache.root() / "build" / f"{name}-{key}.log"
        log.unlink(missing_ok=True)
        source = linked_tree(tree, part / "linux")
        out = source.path / "objects"
        out.mkdir(exist_ok=True)
        builder = Builder(source, toolchain, out, log)
        started = time.monotonic()
        with contextlib.ExitStack() as stack:
            show = tell or stack.enter_context(progress.step(f"building {name} (Linux {tree.version})")).update
            builder.configure(text)
            builder.compile(show)
        publish(builder, name, time.monotonic() - started, part)
        shutil.copyfile(log, part / "build.log")
        remove_tree(source.path)
        log.unlink()

    path = cache.make_entry("build", f"{name}-{key}", make, resume=True)
    return Kernel(name, path, tree.version)
