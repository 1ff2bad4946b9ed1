"""Builds the site: the page, Python in WebAssembly and the simulator's modules in one folder.

Files that are not txnsim's own are fetched by npm and pip, or lie in a folder; ``parts.toml`` has
the digest of each. Node.js runs Python in WebAssembly once, to compile the modules. The same txnsim
gives the same files.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata, resources
from pathlib import Path, PurePosixPath
from typing import Any, Final

import msgspec

import txnsim
import txnsim_lab
from txnsim.errors import ConfigError
from txnsim.files import working_in, write_all
from txnsim_lab.http.page._files import files as page_files
from txnsim_lab.http.page._files import served_files
from txnsim_lab.scenario.catalog import directory

_HERE: Final = resources.files("txnsim_lab.http.site")
LEFT_OUT: Final = (
    "campaigns.py", "cli", "conformance", "exam", "proxy", "scenarios", "simulation", "testing",
    "troubleshooting.py",
)  # fmt: skip
"""Modules of txnsim and its lab that no story needs."""
HTTP_KEPT: Final = (
    "__init__", "direct_port", "explaining", "messages", "operation", "replies", "runs", "site",
    "work_thread",
)  # fmt: skip
"""Modules of the control port that the site needs to answer the page."""
REAL_CLUSTERS: Final = re.compile(
    "scenario/on_real/|target/(apache|cleaning|generation|jars|real|real_clusters)[.]py"
)
"""Modules that play a story on a real Kafka, which a browser can't reach."""
COMMANDS_ALONE: Final = re.compile(
    "client/raw/|runtime/(blocking_world|process_pool)[.]py|trace/convert/"
    "|scenario/(hanging_example|hypothesis|practise_situation)[.]py"
)
"""Modules that only commands and other excluded modules use."""
NO_CLUSTER: Final = "http/runs/own_cluster.py"
"""Lessons on a live cluster, which a site does not have."""
_PRIVATE: Final = re.compile("^_(?!_)")
"""The mark of a private module."""
_LIBRARIES_LEFT_OUT: Final = re.compile(
    r"pydantic/(v1/|mypy|color|networks|experimental/p)|_yaml/|structlog/twisted|kio/schema/\w*(raft|quorum|vote"
    r"|delegation_token|snapshot)"
)
"""Library modules that no story uses, and support for old programs."""
STAND_INS: Final = {
    "crc32c.py": "crc32c.py",
    "kio_native.py": "kio/_kio_native.py",
    "starlette/__init__.py": "starlette/__init__.py",
    "starlette/requests.py": "starlette/requests.py",
    "starlette/responses.py": "starlette/responses.py",
    "starlette/routing.py": "starlette/routing.py",
}
_PYODIDE_FILES: Final = ("pyodide.mjs", "pyodide.asm.mjs")
_WASM: Final = "pyodide.asm.wasm"
PACKED: Final = {
    _WASM: "wasm.packed",
    "library.zip": "library.packed",
    "modules.zip": "modules.packed",
    "txnsim.zip": "txnsim.packed",
}
"""A file that the worker unpacks (gzip) -> the file that is sent. The name does not end in .gz,
because servers take that for the packed form of another file.
"""
_PLATFORMS: Final = ("pyemscripten_2026_0_wasm32", "manylinux2014_x86_64", "manylinux_2_28_x86_64")
POLICY: Final = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self';"
    " connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'"
)
"""The Content-Security-Policy. In the page it is a meta element, which does not cover the workers:
a server should send it with each file."""


class Wheel(msgspec.Struct, frozen=True):
    """A library of the site."""

    name: str
    version: str
    file: str
    sha256: str


class Pyodide(msgspec.Struct, frozen=True):
    """Python in WebAssembly."""

    version: str
    file: str
    sha256: str


class Parts(msgspec.Struct, frozen=True):
    """The parts of the site that are not txnsim's own."""

    pyodide: Pyodide
    wheel: tuple[Wheel, ...]


def parts() -> Parts:
    """The parts as ``parts.toml`` lists them."""
    text = _HERE.joinpath("parts.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), Parts)


def build(
    folder: Path,
    *,
    parts_folder: Path | None = None,
    pack_beforehand: bool = False,
    tell: Callable[[str], object] = lambda _: None,
) -> dict[str, int]:
    """Make the site.

    Args:
        folder: Where; what lies there under the same names is replaced.
        parts_folder: A folder with the files that ``parts.toml`` names; None to fetch them.
        pack_beforehand: Put each file there packed with gzip as well, for servers that send such.
        tell: Called with what is being done.

    Returns:
        Bytes of each file.

    Raises:
        ConfigError: A part is not to be had, Node.js is missing, or the folder can't be written.
        OSError: There is no room for temporary files.
    """
    named_parts = parts()
    with (
        tempfile.TemporaryDirectory(prefix="txnsim-site-") as work_name,
        working_in(Path(work_name)),
    ):
        work = Path(work_name)
        if parts_folder is None:
            tell("fetching Pyodide and libraries by npm and pip …")
            parts_folder = work / "fetched"
            fetch(parts_folder)
        _check(parts_folder / named_parts.pyodide.file, named_parts.pyodide.sha256)
        for wheel in named_parts.wheel:
            _check(parts_folder / wheel.file, wheel.sha256)
        tell("compiling for WebAssembly …")
        files = _files(work, parts_folder, named_parts)
    write_all(folder, files | (_packed_beforehand(files) if pack_beforehand else {}))
    return {name: len(content) for name, content in sorted(files.items())}


def fetch(folder: Path) -> None:
    """Fetch what ``parts.toml`` names into a new folder.

    Raises:
        ConfigError: npm or pip is missing, or does not get it.
    """
    named_parts = parts()
    folder.mkdir()
    _run(["npm", "pack", f"pyodide@{named_parts.pyodide.version}", "--silent"], folder)
    lines = [
        f"{wheel.name}=={wheel.version} --hash=sha256:{wheel.sha256}" for wheel in named_parts.wheel
    ]
    listed = folder / "wheels.txt"
    listed.write_text("\n".join(lines), "utf-8")
    platforms = [word for platform in _PLATFORMS for word in ("--platform", platform)]
    _run(
        [
            sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check",
            "--no-deps", "--only-binary=:all:", "--require-hashes", "--implementation", "cp",
            "--python-version", "3.14", "--abi", "cp314", "--abi", "none", *platforms,
            "--dest", str(folder), "--requirement", str(listed),
        ],
        folder,
    )  # fmt: skip


def _run(command: Sequence[str], folder: Path) -> None:
    program = shutil.which(command[0])
    if program is None:
        raise ConfigError(f"{command[0]} is not installed, but needed to build the site")
    process = subprocess.run(
        [program, *command[1:]], cwd=folder, capture_output=True, text=True, check=False
    )
    if process.returncode:
        output = (process.stderr or process.stdout).strip().splitlines()
        last_lines = "; ".join(output[-3:]) or f"exit status {process.returncode}"
        raise ConfigError(f"{Path(command[0]).name} failed: {last_lines}")


def _check(file: Path, sha256: str) -> None:
    if not file.is_file():
        raise ConfigError(f"{file}: missing; a folder has to hold each file of site/parts.toml")
    if hashlib.sha256(file.read_bytes()).hexdigest() != sha256:
        raise ConfigError(f"{file}: not the file whose sha256 is {sha256}")


def _files(work: Path, parts_folder: Path, named_parts: Parts) -> dict[str, bytes]:
    """Every file of the site."""
    with tarfile.open(parts_folder / named_parts.pyodide.file) as archive:
        archive.extractall(work, filter="data")
    pyodide = work / "package"
    shutil.copy(pyodide / "python_stdlib.zip", work / "python_stdlib.zip")
    _write_files(work / "modules", _library_files(parts_folder, named_parts))
    _write_files(work / "txnsim", own_files())
    for name, file in (("pack.py", "_pack.py"), ("pack.mjs", "pack.mjs")):
        (work / name).write_bytes(_HERE.joinpath(file).read_bytes())
    _run(["node", str(work / "pack.mjs"), str(pyodide), str(work)], work)
    lock = msgspec.json.decode((pyodide / "pyodide-lock.json").read_bytes())
    page = served_files()
    files = {name: page[name] for name in ("page.js", "app.css", "icon.svg")}
    files |= {name: (pyodide / name).read_bytes() for name in _PYODIDE_FILES}
    archives = (name for name in PACKED.values() if (work / name).is_file())
    files |= {name: (work / name).read_bytes() for name in (*archives, "known.json")}
    files[PACKED[_WASM]] = gzip.compress((pyodide / _WASM).read_bytes(), 9, mtime=0)
    digests = {name: digest(content) for name, content in files.items()}
    constants = {"FILES": digests, "LOCK": lock["info"], "PACKED": PACKED}
    files["site_worker.js"] = _with_constants("site_worker.js", constants)
    files["index.html"] = _index(page["index.html"].decode(), digests)
    digests |= {name: digest(files[name]) for name in ("site_worker.js", "index.html")}
    files |= {
        "LICENSE.txt": licence(),
        "source.tar.xz": source(),
    }  # not kept in the cache: a visit needs neither
    build_id = hashlib.sha256(msgspec.json.encode(digests)).hexdigest()[:12]
    files["sw.js"] = _with_constants(
        "sw.js", {"FILES": digests, "PACKED": PACKED, "BUILD": build_id}
    )
    return files


def _library_files(parts_folder: Path, named_parts: Parts) -> Iterator[tuple[str, bytes]]:
    """Modules of the wheels, and our stand-ins. Native code for other machines is left out."""
    for part in named_parts.wheel:
        with zipfile.ZipFile(parts_folder / part.file) as wheel:
            for name in wheel.namelist():
                is_native = name.endswith(".so") and "wasm32" in name
                if (is_native or name.endswith(".py")) and not _LIBRARIES_LEFT_OUT.match(name):
                    yield name, wheel.read(name)
    for name, target in STAND_INS.items():
        yield target, _HERE.joinpath("_stand_ins", *name.split("/")).read_bytes()


def own_files() -> Iterator[tuple[str, bytes]]:
    """Modules of txnsim and its lab, and stories, as pairs of path and content."""
    for package in (Path(txnsim.__file__).parent, Path(txnsim_lab.__file__).parent):
        for path in package.rglob("*.py"):
            inside = path.relative_to(package)
            parts = tuple(_PRIVATE.sub("", part) for part in inside.parts)
            top_folder = parts[0]
            if top_folder in LEFT_OUT or top_folder == "__main__.py" or "stand_ins" in parts:
                continue
            if top_folder == "http" and parts[1].removesuffix(".py") not in HTTP_KEPT:
                continue
            path_inside = "/".join(parts)
            if REAL_CLUSTERS.match(path_inside) or COMMANDS_ALONE.match(path_inside):
                continue
            if path_inside in ("http/site/build.py", "http/site/pack.py", NO_CLUSTER):
                continue
            yield f"{package.name}/{PurePosixPath(inside)}", path.read_bytes()
    stories = directory()
    for path in stories.rglob("*"):
        if path.suffix in (".yaml", ".toml"):
            name = PurePosixPath(path.relative_to(stories))
            yield f"txnsim_lab/scenarios/{name}", path.read_bytes()


def licence() -> bytes:
    """The text of the licence, as it was installed with txnsim."""
    text = metadata.distribution("txnsim").read_text("licenses/LICENSE")
    assert text is not None
    return text.encode()


def source() -> bytes:
    """An archive of txnsim's own sources of the site, with its licence."""
    scripts = ((f"txnsim_lab/http/page/static/{name}", text) for name, text in page_files().items())
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:xz") as written:
        for name, content in sorted([("LICENSE", licence()), *own_files(), *scripts]):
            member = tarfile.TarInfo(f"txnsim/{name}")
            member.size = len(content)
            written.addfile(member, io.BytesIO(content))
    return archive.getvalue()


def _write_files(folder: Path, files: Iterator[tuple[str, bytes]]) -> None:
    for name, content in files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def digest(content: bytes) -> str:
    """The digest of a file for Subresource Integrity."""
    return f"sha256-{base64.b64encode(hashlib.sha256(content).digest()).decode()}"


def _with_constants(name: str, constants: dict[str, Any]) -> bytes:
    script = _HERE.joinpath("static", name).read_text("utf-8")
    lines = [
        f"const {key} = {msgspec.json.encode(value, order='sorted').decode()};\n"
        for key, value in constants.items()
    ]
    return ("".join(lines) + script).encode()


def _index(page: str, digests: dict[str, str]) -> bytes:
    """The page's HTML, marked as a page without a server."""
    policy = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    page = page.replace('<html lang="en">', '<html lang="en" data-site>')
    page = page.replace('<meta charset="utf-8">', f'<meta charset="utf-8">\n{policy}')
    for name in ("icon.svg", "app.css", "page.js"):
        start, _, behind_name = page.partition(f'"/ui/{name}')
        _, _, end = behind_name.partition('"')
        integrity = "" if name == "icon.svg" else f' integrity="{digests[name]}"'
        page = f'{start}"./{name}"{integrity}{end}'
    return page.encode()


def _packed_beforehand(files: dict[str, bytes]) -> dict[str, bytes]:
    return {
        f"{name}.gz": gzip.compress(content, 9, mtime=0)
        for name, content in files.items()
        if name not in PACKED.values()
    }
