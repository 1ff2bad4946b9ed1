"""Traces opened by a visitor from files; kept until the page is closed."""

from __future__ import annotations

from typing import Final

import msgspec
from starlette.requests import Request

from txnsim.errors import BadInputError
from txnsim.http.operation import PREFIX, Noun, Operation
from txnsim.http.replies import Body, RefusedError
from txnsim.trace.reading import recording

_NAMED: Final = "opened-"
"""How their ids begin."""


class OpenTrace(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A trace's file."""

    name: str
    trace: str
    """JSON lines."""


class OpenedTrace(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked about it names it by its id."""

    id: str
    events: int


class OpenedRoutes(Noun):
    """The routes."""

    def __init__(self) -> None:
        self._traces: list[bytes] = []

    @Operation("post", f"{PREFIX}/traces", refusals=("422",))
    async def open(self, _request: Request, body: Body[OpenTrace]) -> OpenedTrace:
        """Keep a trace, so that questions about it are answered."""
        wanted = await body.read()
        content = wanted.trace.encode()
        try:
            run = recording(wanted.name, content.splitlines())
        except BadInputError as error:
            raise RefusedError(422, str(error)) from error
        self._traces.append(content)
        return OpenedTrace(id=f"{_NAMED}{len(self._traces)}", events=len(run.events))

    def trace_of(self, request: Request) -> bytes | None:
        """The trace that ``of`` of a request names; None where it names none of these.

        Raises:
            RefusedError: There is none of that id.
        """
        wanted = request.query_params.get("of", "")
        if not wanted.startswith(_NAMED):
            return None
        number = wanted.removeprefix(_NAMED)
        if not number.isdecimal() or not 1 <= int(number) <= len(self._traces):
            raise RefusedError(404, f"no trace {wanted!r} was opened")
        return self._traces[int(number) - 1]
