"""Access control of the control port, in front of every route.

Any page in a browser can send requests to an address of this machine, and any program can where the
port is open to a network. So requests with a foreign host name or from foreign pages are refused,
and if a token is required, those without it. Only ``OPEN_PATHS`` are answered without a token: they
change nothing, and are for probes and scrapers.

A port bound to loopback accepts only loopback names: otherwise a page could reach it through a name
of its own (DNS rebinding). On other addresses any name is accepted, because machines and containers
have many; there a token is always required, and no page knows it.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from collections.abc import Mapping
from typing import Final

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.types import ASGIApp, Receive, Scope, Send

from txnsim.http.messages import Problem
from txnsim.http.replies import as_json

HTTP_VERSIONS: Final = ("1.0", "1.1")
OPEN_PATHS: Final = ("/", "/healthz", "/metrics")
OPEN_FOLDER: Final = "/ui/"
"""Files of the page, which contain nothing about the cluster."""
LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "[::1]")
BEARER: Final = "bearer "
_WHERE: Final = (
    "Authorization: Bearer TOKEN; `txnsim serve` prints it, the ready file has it, TXNSIM_TOKEN "
    "sets it"
)


class AccessRules:
    """The access rules of a port: token, host and origin."""

    def __init__(self, *, token: str | None = None, is_loopback: bool = True) -> None:
        """The rules of one port.

        Args:
            token: The token that callers must send; None if none is required.
            is_loopback: Whether it is bound to loopback only.
        """
        self._secret = None if token is None else token.encode()
        self._is_loopback = is_loopback
        digest = hashlib.sha256(b"" if token is None else token.encode()).hexdigest()
        # Cookies of all ports of a host lie together: two simulators must not share a name.
        self._cookie_name = f"txnsim-{digest[:8]}"
        self._cookie_value = hmac.new(digest.encode(), b"cookie", "sha256").hexdigest()

    @property
    def cookie(self) -> str | None:
        """The cookie that carries the token; None without a token."""
        if self._secret is None:
            return None
        name, cookie_value = self._cookie_name, self._cookie_value
        return f"{name}={cookie_value}; Path=/; HttpOnly; SameSite=Strict"

    def complaint(self, path: str, headers: Mapping[str, str]) -> tuple[int, str] | None:
        """Status and reason if a request is refused; None if it may pass."""
        host = headers.get("host", "")
        if self._is_loopback and _without_port(host) not in LOOPBACK_NAMES:
            return 400, f"Host is {host!r}: this port is called by {' or '.join(LOOPBACK_NAMES)}"
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2] != host:
            return 403, f"Origin is {origin!r}: pages of other places may not ask"
        if headers.get("sec-fetch-site") == "cross-site":
            return 403, "Sec-Fetch-Site is cross-site: pages of other places may not ask"
        if self._secret is None or _is_open(path) or self._has_valid_token(headers):
            return None
        return 401, f"a token is wanted: {_WHERE}"

    def _has_valid_token(self, headers: Mapping[str, str]) -> bool:
        assert self._secret is not None
        credentials = headers.get("authorization", "")
        if credentials[: len(BEARER)].lower() == BEARER:
            return hmac.compare_digest(credentials[len(BEARER) :].strip().encode(), self._secret)
        cookie = cookie_parser(headers.get("cookie", "")).get(self._cookie_name, "")
        return hmac.compare_digest(cookie.encode(), self._cookie_value.encode())


class AccessGuard:
    """The ASGI middleware that applies the access rules."""

    def __init__(self, app: ASGIApp, *, access_rules: AccessRules) -> None:
        self._app = app
        self._access_rules = access_rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or refuse it."""
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            status_and_complaint = _framing_complaint(
                scope["http_version"], headers
            ) or self._access_rules.complaint(scope["path"], headers)
            if status_and_complaint is None and not scope["query_string"].isascii():
                # A URL has no other bytes; starlette fails at them where it redirects.
                status_and_complaint = (
                    400,
                    "the query of the URL has bytes that are not ASCII: encode them by %",
                )
            if status_and_complaint is not None:
                status, reason = status_and_complaint
                refusal = as_json(Problem(error=reason), status=status)
                if status == 401:
                    refusal.headers["WWW-Authenticate"] = "Bearer"
                if status in (400, 505):
                    refusal.headers["Connection"] = "close"  # its end may be elsewhere
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _framing_complaint(http_version: str, headers: Mapping[str, str]) -> tuple[int, str] | None:
    """Status and reason if programs in between may see another end of the request than this one
    does, though h11 reads it (RFC 9112, 2.5 and 6.1); None if its end is plain.
    """
    if http_version not in HTTP_VERSIONS:
        return 505, f"HTTP/{http_version}: this port speaks HTTP/{' and HTTP/'.join(HTTP_VERSIONS)}"
    if "transfer-encoding" not in headers:
        return None
    if "content-length" in headers:
        return 400, "Content-Length and Transfer-Encoding: a request has one of them"
    if http_version == "1.0":
        return 400, "Transfer-Encoding: HTTP/1.0 has none, send Content-Length"
    return None


def _is_open(path: str) -> bool:
    return path in OPEN_PATHS or path.startswith(OPEN_FOLDER)


def is_loopback(host: str) -> bool:
    """Whether an address is a loopback address of this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _without_port(host: str) -> str:
    """The name in a Host header, in lower case; an IPv6 address keeps its brackets."""
    host_name, colon, port = host.lower().rpartition(":")
    return host_name if colon and (not port or port.isdigit()) else host.lower()
