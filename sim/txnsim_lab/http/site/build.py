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
from txnsim_lab.http.page._files import TYPEFACE, served_files, style_sheet
from txnsim_lab.http.page._files import files as page_files
from txnsim_lab.scenario.catalog import directory

_SITE_PACKAGE: Final = resources.files("txnsim_lab.http.site")
UNUSED_PACKAGES: Final = (
    "badge.py", "campaigns.py", "cli", "conformance", "exam", "exploration", "proxy", "referee",
    "scenarios", "simulation", "testing", "troubleshooting.py",
)  # fmt: skip
"""Modules of txnsim and its lab that no story needs."""
KEPT_HTTP_MODULES: Final = (
    "__init__", "direct_port", "explaining", "messages", "operation", "replies", "runs", "site",
    "work_thread",
)  # fmt: skip
"""Modules of the control port that the site needs to answer the page."""
REAL_CLUSTER_MODULES: Final = re.compile(
    "scenario/on_real/|target/(apache|cleaning|generation|jars|real|real_clusters)[.]py"
)
"""Modules that play a story on a real Kafka, which a browser can't reach."""
COMMAND_ONLY_MODULES: Final = re.compile(
    "client/raw/|runtime/(blocking_world|process_pool)[.]py|trace/convert/"
    "|scenario/(hanging_example|hypothesis|practise_situation)[.]py"
)
"""Modules that only commands and other excluded modules use."""
OWN_CLUSTER_MODULE: Final = "http/runs/own_cluster.py"
"""Lessons on a live cluster, which a site does not have."""
_PRIVATE_MARK: Final = re.compile("^_(?!_)")
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
_WHEEL_PLATFORMS: Final = (
    "pyemscripten_2026_0_wasm32",
    "manylinux2014_x86_64",
    "manylinux_2_28_x86_64",
)
POLICY: Final = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self';"
    " font-src 'self'; connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'"
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
    toml_text = _SITE_PACKAGE.joinpath("parts.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(toml_text), Parts)


def build(
    folder: Path,
    *,
    parts_folder: Path | None = None,
    packs_beforehand: bool = False,
    report_progress: Callable[[str], object] = lambda _: None,
) -> dict[str, int]:
    """Make the site.

    Args:
        folder: Where; what lies there under the same names is replaced.
        parts_folder: A folder with the files that ``parts.toml`` names; None to fetch them.
        packs_beforehand: Put each file there packed with gzip as well, for servers that send such.
        report_progress: Called with what is being done.

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
        work_folder = Path(work_name)
        if parts_folder is None:
            report_progress("fetching Pyodide and libraries by npm and pip …")
            parts_folder = work_folder / "fetched"
            fetch(parts_folder)
        _check_part(parts_folder / named_parts.pyodide.file, named_parts.pyodide.sha256)
        for wheel in named_parts.wheel:
            _check_part(parts_folder / wheel.file, wheel.sha256)
        report_progress("compiling for WebAssembly …")
        site_files = _make_files(work_folder, parts_folder, named_parts)
    write_all(folder, site_files | (_packed_beforehand(site_files) if packs_beforehand else {}))
    return {name: len(content) for name, content in sorted(site_files.items())}


def fetch(folder: Path) -> None:
    """Fetch what ``parts.toml`` names into a new folder.

    Raises:
        ConfigError: npm or pip is missing, or does not get it.
    """
    named_parts = parts()
    folder.mkdir()
    _run_program(["npm", "pack", f"pyodide@{named_parts.pyodide.version}", "--silent"], folder)
    requirement_lines = [
        f"{wheel.name}=={wheel.version} --hash=sha256:{wheel.sha256}" for wheel in named_parts.wheel
    ]
    requirements_file = folder / "wheels.txt"
    requirements_file.write_text("\n".join(requirement_lines), "utf-8")
    platforms = [
        option_word for platform in _WHEEL_PLATFORMS for option_word in ("--platform", platform)
    ]
    _run_program(
        [
            sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check",
            "--no-deps", "--only-binary=:all:", "--require-hashes", "--implementation", "cp",
            "--python-version", "3.14", "--abi", "cp314", "--abi", "none", *platforms,
            "--dest", str(folder), "--requirement", str(requirements_file),
        ],
        folder,
    )  # fmt: skip


def _run_program(command: Sequence[str], folder: Path) -> None:
    program_path = shutil.which(command[0])
    if program_path is None:
        raise ConfigError(f"{command[0]} is not installed, but needed to build the site")
    process = subprocess.run(
        [program_path, *command[1:]], cwd=folder, capture_output=True, text=True, check=False
    )
    if process.returncode:
        output_lines = (process.stderr or process.stdout).strip().splitlines()
        last_lines = "; ".join(output_lines[-3:]) or f"exit status {process.returncode}"
        raise ConfigError(f"{Path(command[0]).name} failed: {last_lines}")


def _check_part(file: Path, sha256: str) -> None:
    if not file.is_file():
        raise ConfigError(f"{file}: missing; a folder has to hold each file of site/parts.toml")
    if hashlib.sha256(file.read_bytes()).hexdigest() != sha256:
        raise ConfigError(f"{file}: not the file whose sha256 is {sha256}")


def _make_files(work_folder: Path, parts_folder: Path, named_parts: Parts) -> dict[str, bytes]:
    """Every file of the site."""
    with tarfile.open(parts_folder / named_parts.pyodide.file) as pyodide_archive:
        pyodide_archive.extractall(work_folder, filter="data")
    pyodide_folder = work_folder / "package"
    shutil.copy(pyodide_folder / "python_stdlib.zip", work_folder / "python_stdlib.zip")
    _write_files(work_folder / "modules", _library_files(parts_folder, named_parts))
    _write_files(work_folder / "txnsim", own_files())
    for name, file in (("pack.py", "_pack.py"), ("pack.mjs", "pack.mjs")):
        (work_folder / name).write_bytes(_SITE_PACKAGE.joinpath(file).read_bytes())
    _run_program(
        ["node", str(work_folder / "pack.mjs"), str(pyodide_folder), str(work_folder)], work_folder
    )
    pyodide_lock = msgspec.json.decode((pyodide_folder / "pyodide-lock.json").read_bytes())
    page_parts = served_files()
    site_files = {name: page_parts[name] for name in ("page.js", "icon.svg", TYPEFACE)}
    site_files["app.css"] = style_sheet(TYPEFACE)
    site_files |= {name: (pyodide_folder / name).read_bytes() for name in _PYODIDE_FILES}
    archive_names = (name for name in PACKED.values() if (work_folder / name).is_file())
    site_files |= {
        name: (work_folder / name).read_bytes() for name in (*archive_names, "known.json")
    }
    site_files[PACKED[_WASM]] = gzip.compress((pyodide_folder / _WASM).read_bytes(), 9, mtime=0)
    digest_by_file = {name: digest(content) for name, content in site_files.items()}
    worker_constants = {"FILES": digest_by_file, "LOCK": pyodide_lock["info"], "PACKED": PACKED}
    site_files["site_worker.js"] = _with_constants("site_worker.js", worker_constants)
    site_files["index.html"] = _index_html(page_parts["index.html"].decode(), digest_by_file)
    digest_by_file |= {name: digest(site_files[name]) for name in ("site_worker.js", "index.html")}
    site_files |= {
        "LICENSE.txt": licence(),
        "source.tar.xz": source(),
    }  # not kept in the cache: a visit needs neither
    build_id = hashlib.sha256(msgspec.json.encode(digest_by_file)).hexdigest()[:12]
    site_files["sw.js"] = _with_constants(
        "sw.js", {"FILES": digest_by_file, "PACKED": PACKED, "BUILD": build_id}
    )
    return site_files


def _library_files(parts_folder: Path, named_parts: Parts) -> Iterator[tuple[str, bytes]]:
    """Modules of the wheels, and our stand-ins. Native code for other machines is left out."""
    for listed_wheel in named_parts.wheel:
        with zipfile.ZipFile(parts_folder / listed_wheel.file) as wheel_zip:
            for member_path in wheel_zip.namelist():
                is_native = member_path.endswith(".so") and "wasm32" in member_path
                if (is_native or member_path.endswith(".py")) and not _LIBRARIES_LEFT_OUT.match(
                    member_path
                ):
                    yield member_path, wheel_zip.read(member_path)
    for member_path, target_path in STAND_INS.items():
        yield (
            target_path,
            _SITE_PACKAGE.joinpath("_stand_ins", *member_path.split("/")).read_bytes(),
        )


def own_files() -> Iterator[tuple[str, bytes]]:
    """Modules of txnsim and its lab, the table of settings, and stories, as pairs of path and
    content.
    """
    for package in (Path(txnsim.__file__).parent, Path(txnsim_lab.__file__).parent):
        for path in package.rglob("*.py"):
            path_in_package = path.relative_to(package)
            path_parts = tuple(
                _PRIVATE_MARK.sub("", path_part) for path_part in path_in_package.parts
            )
            top_folder = path_parts[0]
            if (
                top_folder in UNUSED_PACKAGES
                or top_folder == "__main__.py"
                or "stand_ins" in path_parts
            ):
                continue
            if top_folder == "http" and path_parts[1].removesuffix(".py") not in KEPT_HTTP_MODULES:
                continue
            public_path = "/".join(path_parts)
            if REAL_CLUSTER_MODULES.match(public_path) or COMMAND_ONLY_MODULES.match(public_path):
                continue
            if public_path in ("http/site/build.py", "http/site/pack.py", OWN_CLUSTER_MODULE):
                continue
            yield f"{package.name}/{PurePosixPath(path_in_package)}", path.read_bytes()
    txnsim_folder = Path(txnsim.__file__).parent
    for path in txnsim_folder.glob("metadata/settings/*.jsonl"):
        yield f"txnsim/{PurePosixPath(path.relative_to(txnsim_folder))}", path.read_bytes()
    stories_folder = directory()
    for path in stories_folder.rglob("*"):
        if path.suffix in (".yaml", ".toml"):
            story_path = PurePosixPath(path.relative_to(stories_folder))
            yield f"txnsim_lab/scenarios/{story_path}", path.read_bytes()


def licence() -> bytes:
    """The text of the licence, as it was installed with txnsim."""
    licence_text = metadata.distribution("txnsim").read_text("licenses/LICENSE")
    assert licence_text is not None
    return licence_text.encode()


def source() -> bytes:
    """An archive of txnsim's own sources of the site, with its licence."""
    page_scripts = (
        (f"txnsim_lab/http/page/static/{name}", script_text)
        for name, script_text in page_files().items()
        if not name.endswith(TYPEFACE)
    )
    archive_buffer = io.BytesIO()
    with tarfile.open(fileobj=archive_buffer, mode="w:xz") as source_tar:
        for name, content in sorted([("LICENSE", licence()), *own_files(), *page_scripts]):
            tar_member = tarfile.TarInfo(f"txnsim/{name}")
            tar_member.size = len(content)
            source_tar.addfile(tar_member, io.BytesIO(content))
    return archive_buffer.getvalue()


def _write_files(folder: Path, files: Iterator[tuple[str, bytes]]) -> None:
    for name, content in files:
        file_path = folder / name
        file_path.parent.mkdir(parents=True, exist_ok=True)
        file_path.write_bytes(content)


def digest(content: bytes) -> str:
    """The digest of a file for Subresource Integrity."""
    return f"sha256-{base64.b64encode(hashlib.sha256(content).digest()).decode()}"


def _with_constants(script_name: str, constants: dict[str, Any]) -> bytes:
    script = _SITE_PACKAGE.joinpath("static", script_name).read_text("utf-8")
    constant_lines = [
        f"const {constant_name} = {msgspec.json.encode(value, order='sorted').decode()};\n"
        for constant_name, value in constants.items()
    ]
    return ("".join(constant_lines) + script).encode()


def _index_html(page_html: str, digest_by_file: dict[str, str]) -> bytes:
    """The page's HTML, marked as a page without a server."""
    policy_element = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    page_html = page_html.replace('<html lang="en">', '<html lang="en" data-site>')
    page_html = page_html.replace(
        '<meta charset="utf-8">', f'<meta charset="utf-8">\n{policy_element}'
    )
    for file_name in ("icon.svg", TYPEFACE, "app.css", "page.js"):
        html_before, _, behind_name = page_html.partition(f'"/ui/{file_name}')
        _, _, html_after = behind_name.partition('"')
        is_checked = file_name in ("app.css", "page.js")  # browsers check no icon and no font
        integrity = f' integrity="{digest_by_file[file_name]}"' if is_checked else ""
        page_html = f'{html_before}"./{file_name}"{integrity}{html_after}'
    return page_html.encode()


def _packed_beforehand(files: dict[str, bytes]) -> dict[str, bytes]:
    return {
        f"{name}.gz": gzip.compress(content, 9, mtime=0)
        for name, content in files.items()
        if name not in (TYPEFACE, *PACKED.values())  # these are packed already
    }
