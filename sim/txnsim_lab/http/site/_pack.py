"""Compiles what is in ``/given`` and packs it; run inside of Pyodide by ``pack.mjs``.

Only compiled modules go into the site: half of the time of a first visit would be compiling. The
same files give the same archives.
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

WORK = Path("/given")
DATE = (1980, 1, 1, 0, 0, 0)
NOT_NEEDED = (
    "_pyrepl", "bdb.py", "cProfile.py", "curses", "dbm", "doctest.py", "ensurepip", "ftplib.py",
    "html", "http/cookiejar.py", "http/server.py", "idlelib", "imaplib.py", "lib2to3", "mailbox.py",
    "optparse.py", "pdb.py", "pickletools.py", "poplib.py", "profiling", "pstats.py", "pydoc",
    "smtplib.py", "sqlite3", "statistics.py", "tkinter", "turtle", "unittest", "venv", "wsgiref",
    "xml",
)  # fmt: skip
"""Of the standard library."""
UNCHECKED = (1).to_bytes(4, "little")
"""A module that is known by a hash, which nobody compares (PEP 552)."""
KNOWN = ("/scenarios", "/lessons")
"""Paths with the same answer in every visit, packed for use before Python has loaded."""


def compiled(source: bytes, name: str) -> bytes:
    """A module as bytecode, which does not ask for its source; without docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                first.value.value = ""
    code = compile(tree, name, "exec", dont_inherit=True)
    return importlib.util.MAGIC_NUMBER + UNCHECKED + bytes(8) + marshal.dumps(code)


def pack(archive: str, files: dict[str, bytes]) -> None:
    """Write files, modules compiled, packed as one: modules are much like each other."""
    plain = io.BytesIO()
    with zipfile.ZipFile(plain, "w") as stored:
        for name, content in sorted(files.items()):
            kept, data = name, content
            if name.endswith(".py"):
                kept, data = f"{name}c", compiled(content, name)
            stored.writestr(zipfile.ZipInfo(kept, DATE), data)
    gzip = zlib.compressobj(9, wbits=zlib.MAX_WBITS | 16)
    (WORK / archive).write_bytes(gzip.compress(plain.getvalue()) + gzip.flush())


def below(folder: Path) -> dict[str, bytes]:
    """Every file of a folder by its path."""
    return {
        str(PurePosixPath(one.relative_to(folder))): one.read_bytes()
        for one in folder.rglob("*")
        if one.is_file()
    }


def pack_all() -> None:
    """Write the archives."""
    with zipfile.ZipFile(WORK / "python_stdlib.zip") as library:
        wanted = {
            one: library.read(one)
            for one in library.namelist()
            if not one.endswith("/") and not one.startswith(NOT_NEEDED)
        }
    pack("library.packed", wanted)
    pack("modules.packed", below(WORK / "modules"))
    pack("txnsim.packed", below(WORK / "txnsim"))


async def main() -> None:
    """Pack the site, with the answers that are the same in every visit."""
    pack_all()
    sys.path[:0] = [str(WORK / "modules"), str(WORK / "txnsim")]
    from txnsim_lab.http.site._backend import Backend  # now it can be found

    backend = Backend()
    listed = []
    for path in KNOWN:
        status, _, content = await backend.answer("GET", path)
        assert status == 200, content
        listed.append(f'"{path}":{content.decode()}')
    (WORK / "known.json").write_text(f"{{{','.join(listed)}}}")
