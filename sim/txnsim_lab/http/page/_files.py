"""The files of the page in ``static``, and what a browser gets of them.

There is no build step. The modules are joined to one script when the page is first requested,
because a browser that asks for each of 25 modules waits longer. Only the lines that import and
export are changed.
"""

from __future__ import annotations

import base64
import hashlib
import posixpath
import re
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final

MEDIA_TYPES: Final = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "mjs": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
LIBRARIES: Final = {
    "preact": "vendor/preact.mjs",
    "preact/hooks": "vendor/hooks.mjs",
    "htm": "vendor/htm.mjs",
    "@preact/signals": "vendor/signals.mjs",
    "@preact/signals-core": "vendor/signals-core.mjs",
    "@msgpack/msgpack": "vendor/msgpack/Decoder.mjs",
}
"""Name by which modules import a library -> its file."""
SCRIPT: Final = "page.js"
"""The name of the joined script."""
_MAIN: Final = "main.js"
_PAGE: Final = "__page"
"""The global object that holds the exports of each module, by its path. Tests read it."""
_LOOKED_FOR: Final = re.compile(
    r'(?<![^\n;}])(?:import\s*(?P<names>\{[^{}]*\}|\w+)\s*from\s*"(?P<module>[^"]+)";?'
    r'|export\s*(?P<passed>\{[^{}]*\})\s*from\s*"(?P<of>[^"]+)";?'
    r"|export\s*(?P<listed>\{[^{}]*\});?"
    r"|export default (?=function\b)(?P<default>)"
    r"|export (?P<declared>(?:const|class|(?:async )?function) (?P<name>\w+)))"
    r"|//# sourceMappingURL=\S+"
)


@cache
def files() -> dict[str, bytes]:
    """Every file of the page, by its path in ``static``."""
    return dict(_below(resources.files("txnsim_lab.http.page").joinpath("static"), ""))


def _below(folder: Traversable, prefix: str) -> list[tuple[str, bytes]]:
    files: list[tuple[str, bytes]] = []
    for entry in folder.iterdir():
        if entry.is_dir():
            files += _below(entry, f"{prefix}{entry.name}/")
        elif entry.name.rpartition(".")[2] in MEDIA_TYPES:
            files.append((prefix + entry.name, entry.read_bytes()))
    return files


@cache
def served_files() -> dict[str, bytes]:
    """The files that a browser asks for, by path: the page, its script, its style, its icon."""
    parts = {SCRIPT: script(), "app.css": files()["app.css"], "icon.svg": files()["icon.svg"]}
    page = files()["index.html"].decode()
    for name, content in parts.items():
        page = page.replace(f'"/ui/{name}"', f'"/ui/{name}?v={version(content)}"')
    return {"index.html": page.encode(), **parts}


def version(content: bytes) -> str:
    """The version of a file for its address: it changes with the content, so browsers may keep the
    file for ever.
    """
    return hashlib.sha256(content).hexdigest()[:12]


@cache
def script() -> bytes:
    """All modules as one script, each wrapped in a function and placed after its imports."""
    scripts: dict[str, str] = {}
    _join(_MAIN, scripts, ())
    return "\n".join([f"const {_PAGE} = (globalThis.{_PAGE} = {{}});", *scripts.values()]).encode()


def _join(path: str, scripts: dict[str, str], below: tuple[str, ...]) -> None:
    """Append a module to ``scripts`` after all its imports."""
    if path in scripts:
        return
    if path in below:
        raise ValueError(f"modules of the page import each other: {', '.join((*below, path))}")
    exported: list[str] = []

    def imported_script(module: str) -> str:
        imported = LIBRARIES.get(module) or posixpath.normpath(
            posixpath.join(posixpath.dirname(path), module)
        )
        _join(imported, scripts, (*below, path))
        return f'{_PAGE}["{imported}"]'

    def rewrite_statement(match: re.Match[str]) -> str:
        if names := match["names"]:
            if names.startswith("{"):
                return f"const {names.replace(' as ', ': ')} = {imported_script(match['module'])};"
            return f"const {names} = {imported_script(match['module'])}.default;"
        if passed := match["passed"]:
            source = imported_script(match["of"])
            exported.extend(f"{name}: {source}.{name}" for name in passed.strip("{} ").split(","))
        elif listed := match["listed"]:
            exported.extend(_export_property(name) for name in listed.strip("{} ").split(","))
        elif match["default"] is not None:
            exported.append("default: theDefault")
            return "const theDefault = "
        elif declared := match["declared"]:
            exported.append(match["name"])
            return declared
        return ""

    text = _LOOKED_FOR.sub(rewrite_statement, files()[path].decode())
    if path == _MAIN:  # it exports nothing, and waits at its end
        scripts[path] = f"{{ // {path}\n{text}\n}}"
    else:
        exports = f"return {{ {', '.join(exported)} }};"
        scripts[path] = f'{_PAGE}["{path}"] = (() => {{\n{text}\n;{exports}\n}})();'


def _export_property(listed: str) -> str:
    """An entry ``x as y`` of a list of exports, as a property of the exported object."""
    inside, _, outside = listed.strip().partition(" as ")
    return f"{outside}: {inside}" if outside else inside


def digest(inline: bytes) -> str:
    """The hash by which a Content-Security-Policy allows an inline script or style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(inline).digest()).decode()}'"
