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

WORK = Path("/given")
DATE = (1980, 1, 1, 0, 0, 0)
NOT_NEEDED = (
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
UNCHECKED = (1).to_bytes(4, "little")
"""The flag of a compiled module whose source hash is not checked (PEP 552)."""
KNOWN = ("/scenarios", "/lessons")
"""Paths whose answer is the same in every visit; the answers are packed, and used before Python has
loaded.
"""


def compile_module(source: bytes, name: str, *, has_lines: bool) -> bytes:
    """Compile a module to bytecode that does not need its source, without docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first_statement = node.body[0] if node.body else None
            if (
                isinstance(first_statement, ast.Expr)
                and isinstance(first_statement.value, ast.Constant)
                and isinstance(first_statement.value.value, str)
            ):
                first_statement.value.value = ""
    code = compile(tree, name, "exec", dont_inherit=True)
    if not has_lines:
        code = without_lines(code)
    return importlib.util.MAGIC_NUMBER + UNCHECKED + bytes(8) + marshal.dumps(code)


def without_lines(code: CodeType) -> CodeType:
    """The same code without the table of line numbers, which is a third of it."""
    inside = (
        without_lines(constant) if isinstance(constant, CodeType) else constant
        for constant in code.co_consts
    )
    return code.replace(co_linetable=b"", co_consts=tuple(inside))


def pack(archive: str, files: dict[str, bytes], *, has_lines: bool = False) -> None:
    """Pack files into one archive, modules compiled. All are compressed together, because modules
    resemble each other.
    """
    plain = io.BytesIO()
    with zipfile.ZipFile(plain, "w") as stored:
        for name, content in sorted(files.items()):
            stored_name, data = name, content
            if name.endswith(".py"):
                stored_name, data = f"{name}c", compile_module(content, name, has_lines=has_lines)
            stored.writestr(zipfile.ZipInfo(stored_name, DATE), data)
    gzip = zlib.compressobj(9, wbits=zlib.MAX_WBITS | 16)
    (WORK / archive).write_bytes(gzip.compress(plain.getvalue()) + gzip.flush())


def below(folder: Path) -> dict[str, bytes]:
    """The files below a folder, by path."""
    return {
        str(PurePosixPath(path.relative_to(folder))): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def pack_all() -> None:
    """Write the archives."""
    with zipfile.ZipFile(WORK / "python_stdlib.zip") as library:
        modules = {
            name: library.read(name)
            for name in library.namelist()
            if not name.endswith("/") and not name.startswith(NOT_NEEDED)
        }
    pack("library.packed", modules)
    pack("modules.packed", below(WORK / "modules"))
    # With line numbers, so that a traceback in our own modules names its line.
    pack("txnsim.packed", below(WORK / "txnsim"), has_lines=True)


async def main() -> None:
    """Pack the site, with the answers that are the same in every visit."""
    pack_all()
    sys.path[:0] = [str(WORK / "modules"), str(WORK / "txnsim")]
    from txnsim_lab.http.site._backend import Backend  # only now it can be imported

    backend = Backend()
    listed = []
    for path in KNOWN:
        status, _, content = await backend.answer("GET", path)
        assert status == 200, content
        listed.append(f'"{path}":{content.decode()}')
    (WORK / "known.json").write_text(f"{{{','.join(listed)}}}")
