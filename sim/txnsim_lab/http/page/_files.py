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
    "woff2": "font/woff2",
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
TYPEFACE: Final = "geist.woff2"
"""The typeface of all text, which the style sheet names. The system has the signs that it lacks."""
_MAIN_MODULE: Final = "main.js"
_EXPORTS_OBJECT: Final = "__page"
"""The global object that holds the exports of each module, by its path. Tests read it."""
_MODULE_STATEMENT: Final = re.compile(
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
    return dict(_files_below(resources.files("txnsim_lab.http.page").joinpath("static"), ""))


def _files_below(folder: Traversable, prefix: str) -> list[tuple[str, bytes]]:
    files_by_path: list[tuple[str, bytes]] = []
    for folder_entry in folder.iterdir():
        if folder_entry.is_dir():
            files_by_path += _files_below(folder_entry, f"{prefix}{folder_entry.name}/")
        elif folder_entry.name.rpartition(".")[2] in MEDIA_TYPES:
            files_by_path.append((prefix + folder_entry.name, folder_entry.read_bytes()))
    return files_by_path


@cache
def served_files() -> dict[str, bytes]:
    """The files that a browser asks for, by path: the page, its script, style, icon, typeface."""
    files_by_name = {
        SCRIPT: script(),
        "app.css": style_sheet(f"{TYPEFACE}?v={version(typeface())}"),
        "icon.svg": files()["icon.svg"],
        TYPEFACE: typeface(),
    }
    page_html = files()["index.html"].decode()
    for file_name, content in files_by_name.items():
        page_html = page_html.replace(
            f'"/ui/{file_name}"', f'"/ui/{file_name}?v={version(content)}"'
        )
    return {"index.html": page_html.encode(), **files_by_name}


def typeface() -> bytes:
    """The font file, as it lies in its package."""
    return files()[f"vendor/{TYPEFACE}"]


def style_sheet(typeface_url: str) -> bytes:
    """The style sheet, with the address of its typeface: relative to it, or the font as data."""
    return files()["app.css"].replace(TYPEFACE.encode(), typeface_url.encode())


def version(content: bytes) -> str:
    """The version of a file for its address: it changes with the content, so browsers may keep the
    file for ever.
    """
    return hashlib.sha256(content).hexdigest()[:12]


@cache
def script() -> bytes:
    """All modules as one script, each wrapped in a function and placed after its imports."""
    scripts: dict[str, str] = {}
    _join_module(_MAIN_MODULE, scripts, ())
    return "\n".join(
        [f"const {_EXPORTS_OBJECT} = (globalThis.{_EXPORTS_OBJECT} = {{}});", *scripts.values()]
    ).encode()


def _join_module(path: str, scripts: dict[str, str], importing_modules: tuple[str, ...]) -> None:
    """Append a module to ``scripts`` after all its imports."""
    if path in scripts:
        return
    if path in importing_modules:
        raise ValueError(
            f"modules of the page import each other: {', '.join((*importing_modules, path))}"
        )
    export_properties: list[str] = []

    def imported_script(module: str) -> str:
        imported_path = LIBRARIES.get(module) or posixpath.normpath(
            posixpath.join(posixpath.dirname(path), module)
        )
        _join_module(imported_path, scripts, (*importing_modules, path))
        return f'{_EXPORTS_OBJECT}["{imported_path}"]'

    def rewrite_statement(match: re.Match[str]) -> str:
        if imported_names := match["names"]:
            if imported_names.startswith("{"):
                bindings = imported_names.replace(" as ", ": ")
                return f"const {bindings} = {imported_script(match['module'])};"
            return f"const {imported_names} = {imported_script(match['module'])}.default;"
        if passed_names := match["passed"]:
            source_script = imported_script(match["of"])
            export_properties.extend(
                f"{exported_name}: {source_script}.{exported_name}"
                for exported_name in passed_names.strip("{} ").split(",")
            )
        elif listed_names := match["listed"]:
            export_properties.extend(
                _export_property(exported_name)
                for exported_name in listed_names.strip("{} ").split(",")
            )
        elif match["default"] is not None:
            export_properties.append("default: theDefault")
            return "const theDefault = "
        elif declaration := match["declared"]:
            export_properties.append(match["name"])
            return declaration
        return ""

    module_text = _MODULE_STATEMENT.sub(rewrite_statement, files()[path].decode())
    if path == _MAIN_MODULE:  # it exports nothing, and waits at its end
        scripts[path] = f"{{ // {path}\n{module_text}\n}}"
    else:
        return_statement = f"return {{ {', '.join(export_properties)} }};"
        scripts[path] = (
            f'{_EXPORTS_OBJECT}["{path}"] = (() => {{\n{module_text}\n;{return_statement}\n}})();'
        )


def _export_property(export_entry: str) -> str:
    """An entry ``x as y`` of a list of exports, as a property of the exported object."""
    inner_name, _, outer_name = export_entry.strip().partition(" as ")
    return f"{outer_name}: {inner_name}" if outer_name else inner_name


def digest(inline_content: bytes) -> str:
    """The hash by which a Content-Security-Policy allows an inline script or style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(inline_content).digest()).decode()}'"
