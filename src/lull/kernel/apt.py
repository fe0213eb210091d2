# SPDX-License-Identifier: GPL-2.0-only
"""Debian packages through a private apt state: the machine's sources and lists are read, never written.

Mirror, keys and proxy are the machine's own. The private state has its own lists and archives in the cache,
so nothing here needs root. apt verifies the archive's signature and every file's hash; see apt-secure(8).
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lull import cache, process
from lull.errors import FetchError, MissingError

NO_CANDIDATE_REMEDY = "name a kernel source tree of your own with --tree PATH"


@dataclass(frozen=True)
class Source:
    """One archive of the machine's apt configuration."""

    uri: str
    suite: str
    component: str
    options: str

    def line(self) -> str:
        """The one-line form of sources.list(5)."""
        options = f"[{self.options}] " if self.options else ""
        return f"deb {options}{self.uri} {self.suite} {self.component}"


@dataclass(frozen=True)
class Package:
    """A version of a package, as the signed index describes it."""

    name: str
    version: str
    sha256: str


def codename() -> str:
    """The machine's release (``bookworm``); empty when os-release does not say."""
    try:
        text = Path("/etc/os-release").read_text()
    except OSError:
        return ""
    found = re.search(r'^VERSION_CODENAME="?([a-z]+)', text, re.MULTILINE)
    return found.group(1) if found else ""


def source_files() -> list[Path]:
    """The files of the machine's apt configuration that name archives."""
    text = process.output_of(
        ["apt-config", "shell", "LIST", "Dir::Etc::sourcelist/f", "PARTS", "Dir::Etc::sourceparts/d"]
    )
    names = dict(re.findall(r"(?m)^(LIST|PARTS)='(.*)'$", text))
    parts = Path(names.get("PARTS", "/nonexistent"))
    found = [Path(names.get("LIST", "/nonexistent")), *sorted(parts.glob("*.list")), *sorted(parts.glob("*.sources"))]
    return [p for p in found if p.is_file()]


def entry_options(uri: str, suite: str, files: Sequence[Path]) -> str:
    """The options (key, trust) that the machine uses an archive with; empty when its entry has none.

    Both forms of sources.list(5) are read: lines, and deb822 stanzas.
    """
    for path in files:
        text = "\n".join(line for line in path.read_text().splitlines() if not line.startswith("#"))
        if path.suffix == ".sources":
            entries = re.split(r"\n[ \t]*\n", text)
            option = r"(?im)^(signed-by|trusted):[ \t]*(\S+)"
        else:
            entries = text.splitlines()
            option = r"(?i)(signed-by|trusted)=([^\]\s]+)"
        for entry in entries:
            words = [w.rstrip("/") for w in entry.split()]
            if uri.rstrip("/") in words and suite in words:
                return " ".join(f"{name.lower()}={value}" for name, value in sorted(re.findall(option, entry)))
    return ""


def machine_sources() -> list[Source]:
    """The main archives of the machine's own release, in apt's order; third parties are left out.

    Raises MissingError on a host without apt, FetchError when there are none.
    """
    if not shutil.which("apt-get"):
        raise MissingError(
            "this host has no apt to fetch the kernel source and QEMU with",
            remedy="name a 6.12 kernel source tree with --tree PATH, and install QEMU 10.x",
        )
    release = codename()
    # What apt would fetch: it needs neither root nor indexes that are there already.
    listing = process.output_of(["apt-get", "update", "--print-uris"], error=FetchError)
    files = source_files()
    sources: list[Source] = []
    for uri, suite in re.findall(r"(?m)^'(\S+?)/dists/(\S+)/InRelease'", listing):
        if suite == release or suite.startswith(f"{release}-"):
            sources.append(Source(uri, suite, "main", entry_options(uri, suite, files)))
    if not sources:
        raise FetchError(
            f"apt's configuration names no archive of this machine's release ({release or 'unknown'})",
            where=", ".join(map(str, files)) or "/etc/apt",
            remedy="add the release's main archive there, or " + NO_CANDIDATE_REMEDY,
        )
    return list(dict.fromkeys(sources))


def with_suites(sources: Sequence[Source], suites: Sequence[str]) -> list[Source]:
    """``sources`` and, from the same mirror with the same keys, the main archive of other ``suites``."""
    release = codename()
    mains = [s for s in sources if s.suite == release] or list(sources[:1])
    have = {s.suite for s in sources}
    extra = [
        Source(main.uri, suite, main.component, main.options) for suite in suites for main in mains if suite not in have
    ]
    return [*sources, *extra]


class PrivateApt:
    """An apt of our own over ``sources``, with its state in the cache.

    Args:
        sources: archives, see ``machine_sources`` and ``with_suites``.
        architectures: Debian architectures whose indexes are read, the host's first.
        bare: as on a machine that has no package yet, so that all a package depends on is fetched with it.
    """

    def __init__(self, sources: Sequence[Source], architectures: Sequence[str], *, bare: bool = False) -> None:
        lines = "".join(f"{s.line()}\n" for s in sources)
        lines += "".join(f"{s.line().replace('deb', 'deb-src', 1)}\n" for s in sources if bare)
        self.key = cache.key_of(lines, *architectures, *(["bare"] if bare else []))
        self.home = cache.root() / "apt" / self.key
        self.config = self.home / "apt.conf"
        self.lists = lines
        self.architectures = architectures
        self.bare = bare
        self.status = self.home / "status" if bare else Path("/var/lib/dpkg/status")

    def prepare(self) -> None:
        """Write the private configuration."""
        for folder in ("lists/partial", "archives/partial", "etc/parts"):
            (self.home / folder).mkdir(parents=True, exist_ok=True)
        cache.write_atomic(self.home / "etc/sources.list", self.lists)
        if self.bare:
            cache.write_atomic(self.status, "")
        quoted = " ".join(f'"{a}";' for a in self.architectures)
        native = f'APT::Architecture "{self.architectures[0]}";' if self.bare else ""
        # Read last (-c), so that it also clears the hooks that the machine's apt.conf.d has for its own state.
        cache.write_atomic(
            self.config,
            f'''#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear DPkg::Post-Invoke;
#clear DPkg::Pre-Install-Pkgs;
#clear APT::Architectures;
#clear APT::Default-Release;
APT::Architectures {{ {quoted} }};
{native}
APT::Sandbox::User "";
Acquire::Retries "3";
Acquire::http::Timeout "30";
Acquire::Languages "none";
Dir::State "{self.home}";
Dir::State::lists "{self.home}/lists";
Dir::State::status "{self.status}";
Dir::Cache "{self.home}";
Dir::Cache::archives "{self.home}/archives";
Dir::Etc::sourcelist "{self.home}/etc/sources.list";
Dir::Etc::sourceparts "{self.home}/etc/parts";
Dir::Etc::preferences "{self.home}/etc/preferences";
Dir::Etc::preferencesparts "{self.home}/etc/parts";
''',
        )

    def command(self, tool: str, *words: str) -> list[str]:
        """The command line of one of apt's tools over the private state."""
        return [tool, f"-c={self.config}", *words]

    def update(self, log: Path, line: Callable[[str], None] | None = None) -> None:
        """Fetch the signed indexes. Raises FetchError (no network, bad signature)."""
        with cache.disk_errors(self.home), cache.lock(self.home / "lock"):
            self.prepare()
            process.run_logged(
                self.command("apt-get", "update", "--error-on=any"),
                log,
                line=line,
                error=FetchError,
                what="the package indexes could not be fetched",
                remedy="check the network and the mirror of the machine's apt configuration; "
                "once fetched, --offline works without",
            )

    def candidate(self, name: str, fits: Callable[[str], bool] = lambda version: True) -> Package | None:
        """The newest version of package ``name`` (``name:arch``) in the archives that ``fits``, or None."""
        version = next((v for v in self.versions(name) if fits(v)), None)
        if version is None:
            return None
        text = process.output_of(self.command("apt-cache", "show", "--no-all-versions", f"{name}={version}"))
        fields = dict(re.findall(r"(?m)^(Version|SHA256): (\S+)$", text))
        if "Version" not in fields:
            return None
        return Package(name, fields["Version"], fields["SHA256"])

    def versions(self, name: str) -> list[str]:
        """Every version of ``name`` the archives have, newest first."""
        text = process.output_of(self.command("apt-cache", "madison", name))
        return [line.split("|")[1].strip() for line in text.splitlines() if line.count("|") >= 2]

    def download(self, package: Package, folder: Path, log: Path) -> Path:
        """Fetch ``package`` into ``folder`` and check its hash; apt resumes a connection that breaks, three times.

        Returns: the .deb. Raises FetchError.
        """
        folder.mkdir(parents=True, exist_ok=True)
        spec = f"{package.name}={package.version}"
        with cache.lock(self.home / "lock"):
            process.run_logged(
                self.command("apt-get", "download", spec),
                log,
                cwd=folder,
                error=FetchError,
                what=f"{spec} could not be downloaded",
                remedy="check the network and run again",
            )
        name = package.name.partition(":")[0]
        found = sorted(folder.glob(f"{name}_*.deb"))
        if len(found) != 1:
            raise FetchError(f"{spec}: expected one .deb, found {len(found)}", where=str(folder))
        verify(found[0], package.sha256)
        return found[0]

    def closure(self, words: Sequence[str], sources: Sequence[str] = ()) -> str:
        """What ``download_closure`` and ``download_source`` would fetch, a line a file: where from, name, bytes, hash.

        Raises FetchError, with apt's words, when there is no such package.
        """
        tasks = [["install", "--no-install-recommends", "-o", "Debug::NoLocking=1", *words]]
        tasks += [["source", "--tar-only", "--only-source", *sources]] if sources else []
        files: list[str] = []
        for task in tasks:
            done = process.complete(self.command("apt-get", "--yes", "--print-uris", *task), apart=True)
            if done.status != 0:
                said = re.findall(r"(?m)^E: (.*)$", done.errors) or ["apt-get failed"]
                raise FetchError("; ".join(said), where=str(self.home), remedy="name what the release's archives have")
            files += re.findall(r"(?m)^'.*$", done.output)
        return "\n".join(sorted(files))

    def download_closure(self, words: Sequence[str], folder: Path, log: Path) -> list[Path]:
        """Fetch packages and the dependencies that are lacking into ``folder``. Nothing is installed.

        Args:
            words: names, ``name=version``, options of apt-get.
        """
        (folder / "partial").mkdir(parents=True, exist_ok=True)
        options = ["--yes", "--download-only", "--no-install-recommends", "-o", "Debug::NoLocking=1"]
        with cache.lock(self.home / "lock"):
            process.run_logged(
                self.command("apt-get", "install", *options, "-o", f"Dir::Cache::archives={folder}", *words),
                log,
                error=FetchError,
                what=f"{words[0]} and what it needs could not be downloaded",
                remedy="check the network and run again",
            )
        return sorted(folder.glob("*.deb"))

    def download_source(self, name: str, folder: Path, log: Path) -> list[Path]:
        """Fetch the tarballs of the newest source package ``name`` into ``folder``, without Debian's changes."""
        folder.mkdir(parents=True, exist_ok=True)
        with cache.lock(self.home / "lock"):
            process.run_logged(
                self.command("apt-get", "source", "--tar-only", "--download-only", "--only-source", name),
                log,
                cwd=folder,
                error=FetchError,
                what=f"the source of {name} could not be downloaded",
                remedy="check the network and run again",
            )
        return sorted(folder.glob(f"{name}_*"))

    def newer_from_same(self, name: str, version: str) -> list[str]:
        """The option that lets dependencies come from the suite that has ``version`` of ``name``."""
        policy = process.output_of(self.command("apt-cache", "madison", name))
        for line in policy.splitlines():
            fields = [f.strip() for f in line.split("|")]
            if len(fields) >= 3 and fields[1] == version:
                suite = fields[2].split()[1].partition("/")[0]
                return ["-t", suite]
        return []


def tarballs(files: Sequence[Path]) -> dict[str, Path]:
    """Where the tarballs of a source package belong: folder below its top -> tarball; "" is the top.

    They are NAME_VERSION.orig.tar.xz, or NAME_VERSION.tar.xz, and for each folder NAME_VERSION.orig-FOLDER.tar.xz.
    """
    found: dict[str, Path] = {}
    for path in files:
        if match := re.fullmatch(r"[^_]+_[^_]+?(?:\.orig(?:-([A-Za-z0-9-]+))?)?\.tar\.\w+", path.name):
            found[match[1] or ""] = path
    return found


def verify(path: Path, sha256: str) -> None:
    """Compare a file with its announced SHA-256; a file that differs is removed, and FetchError raised."""
    with open(path, "rb") as handle:
        found = hashlib.file_digest(handle, "sha256").hexdigest()
    if found != sha256:
        path.unlink()
        raise FetchError(
            f"{path.name} has SHA-256 {found}, the signed index says {sha256}; the file was removed",
            where=str(path.parent),
            remedy="run again to fetch it anew; if it stays wrong, the mirror is broken",
        )


def unpack(deb: Path, folder: Path, log: Path) -> None:
    """Unpack the files of ``deb`` into ``folder``; no maintainer script runs."""
    process.run_logged(
        ["dpkg-deb", "-x", deb, folder],
        log,
        error=FetchError,
        what=f"{deb.name} could not be unpacked",
    )


def host_architecture() -> str:
    """Debian's name of the machine's architecture (``amd64``, ``arm64``)."""
    machine = os.uname().machine
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)
