"""The page's files: what is served, under which policy, and that libraries are what they say."""

from __future__ import annotations

import hashlib
import re
import tomllib
import zlib
from typing import Any

import httpx
import pytest

from tests.support.clusters import real_cluster
from txnsim.http._app import ControlApi
from txnsim.http._guard import AccessRules
from txnsim_lab.http.page._files import LIBRARIES, TYPEFACE, files, served_files, version
from txnsim_lab.http.page._routes import POLICY

IMPORTED = re.compile(r"""(?:from|import)\s*["']([^"']+)["']""")


def vendored_files() -> list[dict[str, Any]]:
    from importlib import resources

    folder = resources.files("txnsim_lab.http.page").joinpath("static/vendor")
    file_text = folder.joinpath("VENDOR.toml").read_text("utf-8")
    return list(tomllib.loads(file_text)["file"])


def test_every_library_is_listed_with_its_licence_and_is_what_its_hash_says() -> None:
    from importlib import resources

    folder = resources.files("txnsim_lab.http.page").joinpath("static/vendor")
    files_there = {name.removeprefix("vendor/") for name in files() if name.startswith("vendor/")}
    files_there |= {file.name for file in folder.iterdir() if file.is_file()}
    listed_files = {"VENDOR.toml"}
    for library in vendored_files():
        assert (
            hashlib.sha256(folder.joinpath(library["file"]).read_bytes()).hexdigest()
            == library["sha256"]
        )
        assert library["licence"] in ("MIT", "Apache-2.0", "ISC", "OFL-1.1")
        if "module" in library:  # else another file of the library imports it
            assert LIBRARIES[library["module"]] == f"vendor/{library['file']}"
        listed_files |= {library["file"], library["licence_file"]}
    assert files_there == listed_files


def test_modules_import_nothing_that_is_not_there() -> None:
    for name, content in files().items():
        if not name.endswith(".js"):
            continue
        folder_path = name.rpartition("/")[0]
        for import_path in IMPORTED.findall(content.decode()):
            if import_path.startswith("../"):
                assert import_path[3:] in files(), f"{name}: {import_path}"
            elif import_path.startswith("./"):
                assert f"{folder_path}/{import_path[2:]}".lstrip("/") in files(), (
                    f"{name}: {import_path}"
                )
            elif not import_path.startswith("/"):
                assert import_path in LIBRARIES, f"{name}: {import_path}"


def test_the_page_stays_small() -> None:
    """A browser loads all of this before it shows anything: a second and more on a slow line. For
    the typeface it does not wait.
    """
    sizes = {name: len(zlib.compress(file)) for name, file in served_files().items()}
    assert sizes.pop(TYPEFACE) < 30_000
    assert sum(sizes.values()) < 140_000


def test_the_policy_lets_in_nothing_but_our_files() -> None:
    rules = dict(directive.strip().partition(" ")[::2] for directive in POLICY.split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == "'self'"
    assert set(rules.values()) == {"'none'", "'self'"}


@pytest.mark.parametrize(
    ("path", "media_type"),
    [
        ("/", "text/html"),
        ("/ui/page.js", "text/javascript"),
        ("/ui/app.css", "text/css"),
        ("/ui/geist.woff2", "font/woff2"),
    ],
)
async def test_files_are_answered_without_a_token_and_operations_are_not(
    path: str, media_type: str
) -> None:
    async with real_cluster(brokers=1) as sim:
        api = ControlApi(sim)
        web_app = api.app(AccessRules(token="a-token-of-enough-letters"))
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app=web_app), base_url="http://localhost"
        ) as page_client:
            answer = await page_client.get(path)
            assert answer.status_code == 200
            assert answer.headers["content-type"].startswith(media_type)
            assert answer.headers["content-security-policy"] == POLICY
            assert (await page_client.get("/api/v1/brokers")).status_code == 401
        api.close()  # the page has had its helper started


async def test_what_is_asked_for_by_its_version_is_kept_by_browsers_and_nothing_else() -> None:
    async with real_cluster(brokers=1) as sim:
        api = ControlApi(sim)
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app=api.app()), base_url="http://localhost"
        ) as page_client:
            current_version = version(served_files()["page.js"])
            for path, asked_version in [
                ("/", ""),
                ("/ui/page.js", ""),
                ("/ui/page.js", current_version),
            ]:
                answer = await page_client.get(
                    path, params={"v": asked_version} if asked_version else {}
                )
                cache_control = "max-age=31536000, immutable" if asked_version else "no-cache"
                assert answer.headers["cache-control"] == cache_control
        api.close()


@pytest.mark.parametrize("path", ["/ui/none.js", "/ui/vendor/VENDOR.toml", "/ui/%2e%2e/app.py"])
async def test_what_is_no_file_of_the_page_is_not_there(path: str) -> None:
    async with real_cluster(brokers=1) as sim:
        web_app = ControlApi(sim).app()
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app=web_app), base_url="http://localhost"
        ) as page_client:
            assert (await page_client.get(path)).status_code == 404
