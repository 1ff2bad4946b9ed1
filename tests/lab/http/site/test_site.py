"""The site: how it is built, packed and opened."""

from __future__ import annotations

import ast
import errno
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.full_disk import little_room
from txnsim.errors import ConfigError
from txnsim_lab.http._runs import scenarios
from txnsim_lab.http.site import build
from txnsim_lab.http.site._backend import Backend
from txnsim_lab.http.site._pack import UNNEEDED_MODULES

ABROAD: Final = {
    "cryptography": "keys and certificates of listeners with TLS: there are no listeners",
    "kafka": "kafka-python as a player: it wants sockets and threads",
    "prometheus_client": "the page of metrics",
    "tarfile": "archives of brokers' disks, which no visitor loads",
    "uvloop": "the loop of a real server",
}
"""What modules of the site import and the site lacks -> why no visitor misses it."""


def imported_modules(source: bytes) -> Iterator[str]:
    """Modules that a module imports when it is run, at once or later."""
    module_tree = ast.parse(source)
    for node in ast.walk(module_tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            node.body = []
    for node in ast.walk(module_tree):
        match node:
            case ast.Import(names=names):
                yield from (name.name for name in names)
            case ast.ImportFrom(module=str(module_name), level=0):
                yield module_name
            case ast.Call(func=ast.Name(id="OnDemand"), args=[ast.Constant(value=str(name))]):
                yield name


@pytest.mark.costly
def test_a_module_that_the_site_needs_is_in_it() -> None:
    own_content = {name: content for name, content in build.own_files() if name.endswith(".py")}
    known_modules = {name[:-3].replace("/", ".").removesuffix(".__init__") for name in own_content}
    libraries = {
        library_wheel.name.lower().replace("-", "_") for library_wheel in build.parts().wheel
    } | {"yaml"}
    libraries |= {
        stand_in_name.split("/")[0].removesuffix(".py") for stand_in_name in build.STAND_INS
    }
    left_out = {
        unneeded_module_name.split("/")[0].removesuffix(".py")
        for unneeded_module_name in UNNEEDED_MODULES
        if "/" not in unneeded_module_name
    }
    missing = set()
    for content in own_content.values():
        for module_name in imported_modules(content):
            top_module = module_name.split(".")[0]
            if top_module in ("txnsim", "txnsim_lab"):
                missing |= {module_name} - known_modules
            elif top_module not in sys.stdlib_module_names or top_module in left_out:
                missing |= {top_module} - libraries
    assert missing == ABROAD.keys()


def test_a_site_that_has_no_room_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "_check_part", lambda *_: None)
    files = {"index.html": b"small", "page.js": b"x" * 2_000}
    monkeypatch.setattr(build, "_make_files", lambda *_: files)
    with little_room(), pytest.raises(ConfigError, match=r"site/page\.js: File too large; nothing"):
        build.build(tmp_path / "site", parts_folder=tmp_path)
    assert list(tmp_path.iterdir()) == []
    sizes = build.build(tmp_path / "site", parts_folder=tmp_path, packs_beforehand=True)
    assert sizes == {"index.html": 5, "page.js": 2_000}
    assert {file.name for file in (tmp_path / "site").iterdir()} == {
        *sizes, "index.html.gz", "page.js.gz",
    }  # fmt: skip


def test_a_full_place_for_temporary_files_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_room(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(build, "_check_part", lambda *_: None)
    monkeypatch.setattr(build, "_make_files", without_room)
    with pytest.raises(OSError, match=r"device: '.*/txnsim-site-"):
        build.build(tmp_path / "site", parts_folder=tmp_path)


async def ask_backend(
    backend: Backend, method: str, path: str, query: str = "", body: Any = None
) -> Any:
    text = "" if body is None else json.dumps(body)
    status, media_type, content = await backend.answer(method, path, query, text)
    return status, json.loads(content) if media_type == "application/json" else content


async def test_a_run_is_driven_without_a_server_and_without_processes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scenarios, "HAS_FORK", False)
    backend, wait_text = Backend(), "wait_ms=60000"
    order = {"name": "z01", "runs": ["V-"], "paused": True}
    status, run = await ask_backend(backend, "POST", "/runs", wait_text, order)
    assert (status, run["state"], run["at"]["back"]) == (200, "paused", 0)
    _, run = await ask_backend(backend, "POST", "/runs/1/go", wait_text, {"steps": 2})
    assert run["at"]["next"]["number"] == 2
    _, run = await ask_backend(backend, "POST", "/runs/1/back", wait_text, {"stops": 1})
    assert run["at"]["next"]["number"] == 0
    _, run = await ask_backend(backend, "POST", "/runs/1/go", wait_text, {})
    assert run["runs"][0]["as_declared"]
    _, trace = await ask_backend(backend, "GET", "/runs/1/trace", "run=V-&take=armed")
    newest_index = len(trace.splitlines()) - 3
    status, answer = await ask_backend(backend, "GET", "/explain", f"at={newest_index}&of=1&run=V-")
    assert (status, answer["at"]) == (200, newest_index)


async def test_what_is_refused_says_why() -> None:
    backend = Backend()
    status, answer = await ask_backend(backend, "GET", "/faults")
    assert (status, answer["error"]) == (404, "/faults is not known where no server is")
    status, answer = await ask_backend(backend, "POST", "/runs", "", {"name": "z999"})
    assert status == 404
    status, answer = await ask_backend(backend, "POST", "/runs", "", {"yaml": "name: x"})
    assert status == 422
    assert "posted.yaml:1: goal: is missing" in answer["error"]
