"""Compiles the modules in ``/given`` and packs them; ``pack.mjs`` runs it inside Pyodide.

Only compiled modules go into the site, because half of the time of a first visit would be
compiling. The same files give the same archives.
"""

from __future__ import annotations

import ast
import importlib.util
import io
import marshal
import sys
import zipfile
import zlib
from pathlib import Path, PurePosixPath
from types import CodeType

WORK_FOLDER = Path("/given")
FILE_DATE = (1980, 1, 1, 0, 0, 0)
UNNEEDED_MODULES = (
    "_ast_unparse", "_pydatetime.py", "_pyio.py", "_pylong", "_pyrepl", "_strptime", "argparse.py",
    "asyncio/__main__", "asyncio/proactor_events", "asyncio/tools", "asyncio/windows_", "bdb.py",
    "cProfile.py", "calendar.py", "cmd.py", "compileall.py", "concurrent/futures/process.py",
    "concurrent/interpreters", "configparser.py", "csv.py", "ctypes/_aix", "ctypes/macholib",
    "ctypes/util.py", "ctypes/wintypes", "curses", "dbm", "doctest.py",
    "email/_header_value_parser", "email/contentmanager", "email/generator", "email/headerregistry",
    "email/mime", "encodings/big5", "encodings/cp0", "encodings/cp1", "encodings/cp2",
    "encodings/cp5", "encodings/cp7", "encodings/cp8", "encodings/cp9", "encodings/euc",
    "encodings/gb", "encodings/hp", "encodings/hz", "encodings/iso", "encodings/johab",
    "encodings/koi8", "encodings/kz", "encodings/mac_", "encodings/palmos", "encodings/ptcp",
    "encodings/shift", "encodings/tis", "ensurepip", "filecmp", "fileinput", "ftplib.py", "getpass",
    "gettext", "graphlib", "gzip.py", "html", "http/client", "http/cookiejar.py", "http/cookies",
    "http/server.py", "idlelib", "imaplib.py", "importlib/resources/_", "json/tool", "lib2to3",
    "logging/config", "logging/handlers", "mailbox.py", "mimetypes", "modulefinder",
    "multiprocessing", "netrc", "optparse.py", "pdb.py", "pickletools.py", "pkgutil", "plistlib",
    "poplib.py", "pprint", "profile.py", "profiling", "pstats.py", "pty.py", "py_compile", "pyclbr",
    "pydoc", "pyodide/console", "pyodide/http", "runpy", "shelve", "smtplib.py", "socketserver",
    "sqlite3", "statistics.py", "stringprep", "symtable", "sysconfig/__main__", "tabnanny",
    "tarfile", "timeit", "tkinter", "tomllib", "trace.py", "tracemalloc", "turtle", "unittest",
    "urllib/request", "urllib/robotparser", "venv", "wave", "wsgiref", "xml", "zipapp",
)  # fmt: skip
"""Beginnings of paths in the standard library that no module of the site imports."""
UNCHECKED_FLAG = (1).to_bytes(4, "little")
"""The flag of a compiled module whose source hash is not checked (PEP 552)."""
KNOWN_PATHS = ("/scenarios", "/lessons")
"""Paths whose answer is the same in every visit; the answers are packed, and used before Python has
loaded.
"""


def compile_module(source: bytes, module_path: str, *, has_lines: bool) -> bytes:
    """Compile a module to bytecode that does not need its source, without docstrings."""
    syntax_tree = ast.parse(source)
    for node in ast.walk(syntax_tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first_statement = node.body[0] if node.body else None
            if (
                isinstance(first_statement, ast.Expr)
                and isinstance(first_statement.value, ast.Constant)
                and isinstance(first_statement.value.value, str)
            ):
                first_statement.value.value = ""
    module_code = compile(syntax_tree, module_path, "exec", dont_inherit=True)
    if not has_lines:
        module_code = without_lines(module_code)
    return importlib.util.MAGIC_NUMBER + UNCHECKED_FLAG + bytes(8) + marshal.dumps(module_code)


def without_lines(code: CodeType) -> CodeType:
    """The same code without the table of line numbers, which is a third of it."""
    inner_constants = (
        without_lines(constant) if isinstance(constant, CodeType) else constant
        for constant in code.co_consts
    )
    return code.replace(co_linetable=b"", co_consts=tuple(inner_constants))


def pack(archive_name: str, files: dict[str, bytes], *, has_lines: bool = False) -> None:
    """Pack files into one archive, modules compiled. All are compressed together, because modules
    resemble each other.
    """
    zip_buffer = io.BytesIO()
    with zipfile.ZipFile(zip_buffer, "w") as zip_file:
        for file_path, file_content in sorted(files.items()):
            stored_path, stored_content = file_path, file_content
            if file_path.endswith(".py"):
                stored_path, stored_content = (
                    f"{file_path}c",
                    compile_module(file_content, file_path, has_lines=has_lines),
                )
            zip_file.writestr(zipfile.ZipInfo(stored_path, FILE_DATE), stored_content)
    gzip_compressor = zlib.compressobj(9, wbits=zlib.MAX_WBITS | 16)
    (WORK_FOLDER / archive_name).write_bytes(
        gzip_compressor.compress(zip_buffer.getvalue()) + gzip_compressor.flush()
    )


def files_below(folder: Path) -> dict[str, bytes]:
    return {
        str(PurePosixPath(path.relative_to(folder))): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def pack_all() -> None:
    """Write the archives."""
    with zipfile.ZipFile(WORK_FOLDER / "python_stdlib.zip") as library_zip:
        library_files = {
            file_path: library_zip.read(file_path)
            for file_path in library_zip.namelist()
            if not file_path.endswith("/") and not file_path.startswith(UNNEEDED_MODULES)
        }
    pack("library.packed", library_files)
    pack("modules.packed", files_below(WORK_FOLDER / "modules"))
    # With line numbers, so that a traceback in our own modules names its line.
    pack("txnsim.packed", files_below(WORK_FOLDER / "txnsim"), has_lines=True)


async def main() -> None:
    """Pack the site, with the answers that are the same in every visit."""
    pack_all()
    sys.path[:0] = [str(WORK_FOLDER / "modules"), str(WORK_FOLDER / "txnsim")]
    from txnsim_lab.http.site._backend import Backend  # only now it can be imported

    backend = Backend()
    known_answers = []
    for path in KNOWN_PATHS:
        status, _, answered_content = await backend.answer("GET", path)
        assert status == 200, answered_content
        known_answers.append(f'"{path}":{answered_content.decode()}')
    (WORK_FOLDER / "known.json").write_text(f"{{{','.join(known_answers)}}}")
