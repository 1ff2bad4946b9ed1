"""Replaces ``starlette.requests``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from urllib.parse import parse_qsl


class ClientDisconnect(Exception):
    """Never raised: requests to a worker can't be cut off."""


class Request:
    """A request, as ``txnsim_lab.http.site._backend`` makes it."""

    def __init__(self, scope: dict[str, Any], receive: Callable[[], Awaitable[Any]]) -> None:
        self.path_params: dict[str, str] = scope["path_params"]
        query_pairs = parse_qsl(scope["query_string"].decode(), keep_blank_values=True)
        self.query_params = dict(query_pairs)
        self.headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        self._receive = receive

    async def stream(self) -> AsyncIterator[bytes]:
        """The body in one piece."""
        yield (await self._receive())["body"]
