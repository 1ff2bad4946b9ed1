"""In front of the control port: names, pages, tokens."""

from __future__ import annotations

from typing import Any

import pytest

from txnsim.http.guard import AccessRules, Guard, is_loopback

TOKEN = "a-token-of-enough-letters"
PATH = "/api/v1/reset"
NEAR = AccessRules()
FAR = AccessRules(token=TOKEN, is_loopback=False)
BEARER = {"authorization": f"Bearer {TOKEN}"}


def status(keeper: AccessRules, path: str = PATH, **headers: str) -> int | None:
    named = {"host": "localhost:9080"} | {k.replace("_", "-"): v for k, v in headers.items()}
    complaint = keeper.complaint(path, named)
    return None if complaint is None else complaint[0]


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost", None),
        ("LOCALHOST:9080", None),
        ("127.0.0.1:1", None),
        ("[::1]:9080", None),
        ("[::1]", None),
        ("", 400),
        ("evil.example", 400),
        ("evil.example:9080", 400),
        ("localhost.evil.example", 400),
        ("127.0.0.1.evil.example:9080", 400),
        ("localhost:evil.example", 400),
    ],
)
def test_on_loopback_only_loopbacks_names_are_answered(host: str, expected: int | None) -> None:
    assert status(NEAR, host=host) == expected
    assert status(FAR, host=host, **BEARER) is None


@pytest.mark.parametrize("path", [PATH, "/healthz", "/metrics"])
@pytest.mark.parametrize(
    "origin", ["https://evil.example", "http://localhost:3000", "null", "", "localhost:9080"]
)
def test_a_page_of_another_place_may_not_ask(origin: str, path: str) -> None:
    assert status(NEAR, path, origin=origin) == 403
    assert status(FAR, path, origin=origin, **BEARER) == 403


def test_a_page_of_its_own_may_ask() -> None:
    own = "http://localhost:9080"
    assert status(NEAR, origin=own, sec_fetch_site="same-origin") is None
    assert status(NEAR, sec_fetch_site="none") is None
    assert status(NEAR, sec_fetch_site="cross-site") == 403


@pytest.mark.parametrize(
    "authorization",
    [
        "",
        "Bearer",
        "Bearer ",
        f"Basic {TOKEN}",
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN[:-1]}",
        "Bearer é",
    ],
)
def test_without_the_token_only_health_and_metrics_are_answered(authorization: str) -> None:
    assert status(FAR, authorization=authorization) == 401
    assert status(FAR, "/openapi.json", authorization=authorization) == 401
    assert status(FAR, "/healthz/", authorization=authorization) == 401
    assert status(FAR, "/healthz", authorization=authorization) is None
    assert status(FAR, "/metrics", authorization=authorization) is None


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_with_the_token_all_is_answered(scheme: str) -> None:
    assert status(FAR, authorization=f"{scheme} {TOKEN}") is None


def test_the_cookie_stands_for_the_token_and_does_not_tell_it() -> None:
    cookie = FAR.cookie
    assert cookie is not None
    assert TOKEN not in cookie
    assert cookie.endswith("; Path=/; HttpOnly; SameSite=Strict")
    pair = cookie.partition(";")[0]
    assert status(FAR, cookie=f"a=b; {pair}") is None
    assert status(FAR, cookie=pair + "x") == 401
    assert status(AccessRules(token=TOKEN + "2"), cookie=pair) == 401
    assert NEAR.cookie is None


def test_a_refusal_does_not_repeat_what_was_brought() -> None:
    complaint = FAR.complaint(PATH, {"host": "x", "authorization": "Bearer wrong-token-here"})
    assert complaint is not None
    assert "wrong-token-here" not in complaint[1]


@pytest.mark.parametrize(
    ("address", "near"),
    [
        ("127.0.0.1", True),
        ("127.1.2.3", True),
        ("::1", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("kafka.test", False),
    ],
)
def test_which_addresses_are_loopback(address: str, near: bool) -> None:
    assert is_loopback(address) is near


async def test_a_query_that_is_not_ascii_is_refused_before_anybody_reads_it() -> None:
    sent: list[Any] = []

    async def app(*_: Any) -> None:
        sent.append("let in")

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request"}

    guard = Guard(app, access_rules=NEAR)
    scope = {"type": "http", "path": PATH, "headers": [(b"host", b"localhost")]}
    await guard({**scope, "query_string": b"a=\xff"}, receive, send)
    assert sent[0]["status"] == 400
    await guard({**scope, "query_string": b"a=%ff"}, receive, send)
    assert sent[-1] == "let in"
