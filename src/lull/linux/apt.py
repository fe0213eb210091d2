# SPDX-License-Identifier: GPL-2.0-only
"""Download Debian packages with an apt whose state is in the cache; the machine's own apt state is never written.

Mirrors, keys and proxy come from the machine's configuration of apt. Package lists and downloads go to the cache, so
that root is not needed. apt verifies the archive's signature and the hash of every file; see apt-secure(8).
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lull import cache, process
from lull.errors import DiskFull, FetchError, MissingError

NO_CANDIDATE_REMEDY = "name a kernel source tree of your own with --tree PATH"
SECURITY = "-security"
SPARE_GIB = 1 / 64
"""GiB of free space below which a failed download is one of a full disk."""
INDEX_GIB = 0.5
"""GiB of free space that the package indexes of all suites need, with a margin."""
HELPER = Path("/usr/lib/apt/apt-helper")
"""apt's program that downloads single files, with the machine's proxies and methods."""
CAUSES = {
    r"NOSPLIT|isn't valid|<html|<!DOCTYPE": "a web page came in place of a file: does a proxy want a login?",
    r"is expired": "the index of a suite has expired: no archive updates it, or this machine's clock is wrong",
    r"is not valid yet": "the index of a suite is not valid yet: is this machine's clock wrong?",
    r"NO_PUBKEY|is not signed|not available": "this machine has no key for the archive's signature",
    r"Hash Sum mismatch": "the archive sent a file with another hash than announced",
    r"does not have a Release file|404": "the archive does not have it (any more)",
    r"Could not (connect|resolve)|Temporary failure|timed out|Unable to connect|unreachable": (
        "the archive cannot be reached: check the network"
    ),
}
"""What apt says when a download failed, as a regular expression -> the cause in one sentence."""


@dataclass(frozen=True)
class AptSource:
    """One archive of the machine's apt configuration; ``options`` as in sources.list(5), without brackets."""

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
    """One version of a package, with the SHA-256 of its .deb from the signed index."""

    name: str
    version: str
    sha256: str


def codename() -> str:
    """The code name of the machine's release (``bookworm``); empty when /etc/os-release has none."""
    try:
        text = Path("/etc/os-release").read_text()
    except OSError:
        return ""
    found = re.search(r'^VERSION_CODENAME="?([a-z]+)', text, re.MULTILINE)
    return found.group(1) if found else ""


def source_files() -> list[Path]:
    """The existing files in which the machine's apt configuration lists archives."""
    text = process.output_of(
        ["apt-config", "shell", "LIST", "Dir::Etc::sourcelist/f", "PARTS", "Dir::Etc::sourceparts/d"]
    )
    names = dict(re.findall(r"(?m)^(LIST|PARTS)='(.*)'$", text))
    parts = Path(names.get("PARTS", "/nonexistent"))
    found = [Path(names.get("LIST", "/nonexistent")), *sorted(parts.glob("*.list")), *sorted(parts.glob("*.sources"))]
    return [p for p in found if p.is_file()]


def entry_options(uri: str, suite: str, files: Sequence[Path]) -> str:
    """The options signed-by and trusted of an archive's entry in ``files``; empty when the entry has neither.

    Both forms of sources.list(5) are read: one-line entries and deb822 stanzas.
    """
    for path in files:
        text = "\n".join(line for line in path.read_text(errors="replace").splitlines() if not line.startswith("#"))
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


def machine_sources() -> list[AptSource]:
    """The main archives of the machine's release and of its suites RELEASE-* (updates, security), in apt's order.

    Archives of other suites are left out.

    Raises: MissingError on a host without apt, FetchError when apt's configuration has no such archive.
    """
    if not shutil.which("apt-get"):
        raise MissingError(
            "this host has no apt, which fetches the kernel source and QEMU",
            remedy="name a kernel source tree with --tree PATH, and install QEMU 10.x or 11.x",
        )
    release = codename()
    # Listing what apt would fetch needs neither root nor existing indexes.
    listing = process.output_of(["apt-get", "update", "--print-uris"], error=FetchError)
    files = source_files()
    sources: list[AptSource] = []
    for uri, suite in re.findall(r"(?m)^'(\S+?)/dists/(\S+)/InRelease'", listing):
        if suite == release or suite.startswith(f"{release}-"):
            sources.append(AptSource(uri, suite, "main", entry_options(uri, suite, files)))
    if not sources:
        raise FetchError(
            f"apt's configuration names no archive of this machine's release ({release or 'unknown'})",
            where=", ".join(map(str, files)) or "/etc/apt",
            remedy="add the release's main archive there, or " + NO_CANDIDATE_REMEDY,
        )
    return list(dict.fromkeys(sources))


def with_suites(sources: Sequence[AptSource], suites: Sequence[str]) -> list[AptSource]:
    """``sources``, and the main archives of further ``suites`` from the same mirrors with the same keys.

    The mirror of a suite NAME-security is that of the release's own security suite, or else the one beside the main
    mirror whose name ends in ``-security``.
    """
    release = codename()
    mains = [s for s in sources if s.suite == release] or list(sources[:1])
    beside = [replace(main, uri=f"{main.uri.rstrip('/')}{SECURITY}") for main in mains]
    secure = [s for s in sources if s.suite == f"{release}{SECURITY}"] or beside
    have = {s.suite for s in sources}
    extra = [
        replace(mirror, suite=suite)
        for suite in dict.fromkeys(suites)
        for mirror in (secure if suite.endswith(SECURITY) else mains)
        if suite not in have
    ]
    return [*sources, *extra]


def cause_of(output: str) -> str:
    """The cause of a failed download in one sentence, from what apt printed; empty when it is none of CAUSES."""
    return next((cause for pattern, cause in CAUSES.items() if re.search(pattern, output)), "")


def run_apt(command: Sequence[str | Path], log: Path, what: str, cwd: Path | None = None) -> None:
    """Run one of apt's programs, which downloads something.

    Args:
        log: takes its output.
        what: the beginning of an error's message: what did not work.

    Raises: DiskFull at once when the disk is full, where apt itself would go on trying; FetchError.
    """
    said: list[str] = []

    def line(text: str) -> None:
        said.append(text)
        if "No space left on device" in text or "enough free space" in text:
            raise DiskFull(
                f"no space left on the device: {what}", where=str(cwd or log.parent), remedy=cache.FREE_SPACE
            )

    try:
        process.run_logged(command, log, cwd=cwd, line=line, env={"LC_ALL": "C"}, error=FetchError)
    except FetchError as error:
        # apt does not always say it, for example when it unpacks an index.
        cache.need_space(cwd or log.parent, SPARE_GIB, what)
        cause = cause_of("\n".join(said))
        raise FetchError(
            f"{what}: {cause}" if cause else what,
            where=error.where,
            remedy="check the network and the archives of the machine's apt configuration, and run again; "
            "once everything is fetched, --offline needs no network",
            tail="" if cause else error.tail,
        ) from error


def download_files(wanted: Mapping[str, tuple[Path, str]], log: Path) -> dict[str, str]:
    """Download single files, and check their hashes. Downloads that broke off are resumed.

    Args:
        wanted: URL -> the file to write, and its SHA-256. The hash may be empty for the last URL only.
        log: takes the output.

    Returns the cause for each URL that could not be had.

    Raises: DiskFull; MissingError on a host without apt.
    """
    if not HELPER.exists():
        raise MissingError("this host has no apt, which downloads files", remedy=NO_CANDIDATE_REMEDY)
    words: list[str] = []
    for url, (path, sha256) in wanted.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        words += [url, str(path), *([f"SHA256:{sha256}"] if sha256 else [])]
    options = ["-o", "APT::Sandbox::User=", "-o", "Acquire::Retries=1", "-o", "Acquire::http::Timeout=30"]
    begun = log.stat().st_size if log.exists() else 0
    try:
        run_apt([HELPER, *options, "download-file", *words], log, "files could not be downloaded")
        return {}
    except FetchError as error:
        said = log.read_bytes()[begun:].decode(errors="replace")
        failed = {}
        for url, (path, sha256) in wanted.items():
            if path.exists() and (not sha256 or hash_of(path) == sha256):
                continue
            # apt prints the URL with its own quoting: the file's name up to the first such character has to do.
            name = re.escape(re.split(r"[+~:%]", url.rpartition("/")[2])[0])
            reasons = re.findall(rf"(?m)^E: Failed to fetch \S*{name}\S*\s+(.*)$", said)
            rejected = path.with_name(f"{path.name}.FAILED")
            page = rejected.exists() and b"<html" in rejected.read_bytes()[:2000].lower()
            rejected.unlink(missing_ok=True)
            failed[url] = cause_of("<html" if page else "\n".join(reasons)) or "; ".join(reasons) or error.what
        return failed


def proxies() -> dict[str, str] | None:
    """Scheme -> the proxy of apt's configuration; None: what the environment says."""
    words = ["apt-config", "shell", "http", "Acquire::http::Proxy", "https", "Acquire::https::Proxy"]
    found = dict(re.findall(r"(?m)^(\w+)='(.*)'$", process.output_of(words))) if shutil.which(words[0]) else {}
    direct = {scheme: proxy for scheme, proxy in found.items() if proxy != "DIRECT"}
    return direct if found else None


def hash_of(path: Path) -> str:
    """The SHA-256 of a file."""
    with open(path, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


class PrivateApt:
    """An apt with its state in the cache.

    Args:
        sources: its archives; see ``machine_sources`` and ``with_suites``.
        architectures: the Debian architectures whose indexes it reads, the host's first.
        bare: act as on a machine without any package, so that all dependencies of a package are fetched with it. The
            archives of source packages are read, too.
    """

    def __init__(self, sources: Sequence[AptSource], architectures: Sequence[str], *, bare: bool = False) -> None:
        lines = "".join(f"{s.line()}\n" for s in sources)
        lines += "".join(f"{s.line().replace('deb', 'deb-src', 1)}\n" for s in sources if bare)
        self.sources = list(sources)
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
        # apt reads this file last (-c): the #clear lines remove hooks of the machine's apt.conf.d, which would act on
        # the machine's own state.
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
Dir::Cache::pkgcache "pkgcache.bin";
Dir::Cache::srcpkgcache "srcpkgcache.bin";
Dir::Cache::archives "{self.home}/archives";
Dir::Etc::sourcelist "{self.home}/etc/sources.list";
Dir::Etc::sourceparts "{self.home}/etc/parts";
Dir::Etc::preferences "{self.home}/etc/preferences";
Dir::Etc::preferencesparts "{self.home}/etc/parts";
''',
        )

    def command(self, tool: str, *words: str) -> list[str]:
        """The command line that runs one of apt's tools with the private state."""
        return [tool, f"-c={self.config}", *words]

    def update(self, log: Path) -> None:
        """Fetch the signed package indexes. Raises FetchError without a network, or when a signature is bad.

        Args:
            log: takes the output.
        """
        with cache.disk_errors(self.home), cache.lock(self.home / "lock"):
            cache.need_space(self.home, INDEX_GIB, "fetching the package indexes")
            self.prepare()
            command = self.command("apt-get", "update", "--error-on=any")
            run_apt(command, log, "the package indexes could not be fetched")

    def accepted(self) -> list[AptSource]:
        """The archives of suites whose index is there: after a failed update, those that can be used nevertheless."""
        there = [p.name for p in (self.home / "lists").glob("*Release")]
        ends = {s: f"_dists_{s.suite.replace('/', '_')}" for s in self.sources}
        return [
            s for s in self.sources if any(n.endswith((f"{ends[s]}_InRelease", f"{ends[s]}_Release")) for n in there)
        ]

    def candidate(self, name: str, fits: Callable[[str], bool] = lambda version: True) -> Package | None:
        """The newest version of ``name`` (or ``name:arch``) in the archives for which ``fits`` is true, or None."""
        version = next((v for v in self.versions(name) if fits(v)), None)
        if version is None:
            return None
        text = process.output_of(self.command("apt-cache", "show", "--no-all-versions", f"{name}={version}"))
        fields = dict(re.findall(r"(?m)^(Version|SHA256): (\S+)$", text))
        if "Version" not in fields:
            return None
        return Package(name, fields["Version"], fields["SHA256"])

    def madison(self, name: str) -> list[list[str]]:
        """Name, version and place of each version of ``name`` in the archives, newest first."""
        text = process.output_of(self.command("apt-cache", "madison", name))
        return [[f.strip() for f in line.split("|")] for line in text.splitlines() if line.count("|") >= 2]

    def names(self, beginning: str) -> list[str]:
        """The names of all packages that begin so, of any architecture."""
        return process.output_of(self.command("apt-cache", "pkgnames", beginning)).split()

    def versions(self, name: str) -> list[str]:
        """All versions of ``name`` in the archives, newest first."""
        return [fields[1] for fields in self.madison(name)]

    def fetch(self, what: str, words: Sequence[str], folder: Path, log: Path) -> None:
        """Run apt-get with ``words`` in ``folder``, to download ``what``. Raises FetchError."""
        folder.mkdir(parents=True, exist_ok=True)
        with cache.lock(self.home / "lock"):
            run_apt(self.command("apt-get", *words), log, f"{what} could not be downloaded", folder)

    def download(self, package: Package, folder: Path, log: Path) -> Path:
        """Download ``package`` into ``folder``, check its hash, and return the .deb.

        apt retries up to three times and resumes where a connection broke.

        Raises: FetchError when the download fails or the hash differs.
        """
        spec = f"{package.name}={package.version}"
        self.fetch(spec, ["download", spec], folder, log)
        name = package.name.partition(":")[0]
        found = sorted(folder.glob(f"{name}_*.deb"))
        if len(found) != 1:
            raise FetchError(f"{spec}: expected one .deb, found {len(found)}", where=str(folder))
        verify(found[0], package.sha256)
        return found[0]

    def closure(self, words: Sequence[str], sources: Sequence[str] = ()) -> str:
        """A line for each file that ``download_closure`` and ``download_source`` would fetch: URI, name, size, hash.

        Args:
            words: as of ``download_closure``.
            sources: names of source packages.

        Raises: FetchError with apt's message when a package does not exist.
        """
        files = self.uris("install", "--no-install-recommends", "-o", "Debug::NoLocking=1", *words).splitlines()
        files += self.uris("source", "--tar-only", "--only-source", *sources).splitlines() if sources else []
        return "\n".join(sorted(files))

    def uris(self, *words: str) -> str:
        """A line, as of ``closure``, for each file that ``apt-get WORDS`` would fetch. Raises FetchError as it does."""
        options = ["--yes", "--print-uris", "-o", "Acquire::ForceHash=SHA256"]
        done = process.complete(self.command("apt-get", *options, *words), apart=True)
        if done.status != 0:
            said = re.findall(r"(?m)^E: (.*)$", done.errors) or ["apt-get failed"]
            raise FetchError("; ".join(said), where=str(self.home), remedy="name packages that the archives have")
        return "\n".join(re.findall(r"(?m)^'.*$", done.output))

    def download_closure(self, words: Sequence[str], folder: Path, log: Path) -> list[Path]:
        """Download packages, and those of their dependencies that are not installed, into ``folder``; return the .debs.

        Nothing is installed. Raises FetchError.

        Args:
            words: ``name``, ``name=version``, and options of apt-get.
        """
        (folder / "partial").mkdir(parents=True, exist_ok=True)
        options = ["--yes", "--download-only", "--no-install-recommends", "-o", "Debug::NoLocking=1"]
        options += ["-o", f"Dir::Cache::archives={folder}"]
        self.fetch(f"{words[0]} and what it needs", ["install", *options, *words], folder, log)
        return sorted(folder.glob("*.deb"))

    def download_source(self, name: str, folder: Path, log: Path) -> list[Path]:
        """Download the upstream tarballs of the newest source package ``name`` into ``folder``. Raises FetchError."""
        options = ["--tar-only", "--download-only", "--only-source"]
        self.fetch(f"the source of {name}", ["source", *options, name], folder, log)
        return sorted(folder.glob(f"{name}_*"))

    def newer_from_same(self, name: str, version: str) -> list[str]:
        """The apt-get option by which dependencies may come from the suite that has ``version`` of ``name``."""
        places = [fields[2] for fields in self.madison(name) if fields[1] == version]
        return ["-t", places[0].split()[1].partition("/")[0]] if places else []


def tarballs(files: Sequence[Path]) -> dict[str, Path]:
    """Folder of the source tree -> the tarball to unpack there; "" is the top folder.

    The top's tarball is NAME_VERSION.orig.tar.xz or NAME_VERSION.tar.xz, that of a folder
    NAME_VERSION.orig-FOLDER.tar.xz.
    """
    found: dict[str, Path] = {}
    for path in files:
        if match := re.fullmatch(r"[^_]+_[^_]+?(?:\.orig(?:-([A-Za-z0-9-]+))?)?\.tar\.\w+", path.name):
            found[match[1] or ""] = path
    return found


def verify(path: Path, sha256: str) -> None:
    """Compare a file with the SHA-256 of the signed index. If they differ, remove the file and raise FetchError."""
    found = hash_of(path)
    if found != sha256:
        path.unlink()
        raise FetchError(
            f"{path.name} has SHA-256 {found}, the signed index says {sha256}; the file was removed",
            where=str(path.parent),
            remedy="run again to fetch it anew; if it stays wrong, the mirror is broken",
        )


def unpack_deb(deb: Path, folder: Path, log: Path) -> None:
    """Unpack the files of ``deb`` into ``folder``. No maintainer script runs. Raises FetchError."""
    process.run_logged(["dpkg-deb", "-x", deb, folder], log, error=FetchError, what=f"{deb.name} could not be unpacked")


def host_architecture() -> str:
    """Debian's name for the machine's architecture (``amd64``, ``arm64``)."""
    machine = os.uname().machine
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)
