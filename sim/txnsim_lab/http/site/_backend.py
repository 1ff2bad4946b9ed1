"""What answers the page where no server is: the operations on runs and lessons, by the same
functions as the control port's. It runs in a worker of the browser; there is no cluster.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec
import structlog
from starlette.requests import Request
from starlette.responses import Response

from txnsim.errors import BadInputError
from txnsim.http.messages import Problem
from txnsim.http.operation import PREFIX, Noun, Operation, Responder
from txnsim.http.replies import Body, RefusedError, as_json, refused
from txnsim.runtime.real import real_environment
from txnsim.trace.reading import recording
from txnsim_lab.http._explaining import ExplainRoutes
from txnsim_lab.http._runs.lessons import LessonRoutes
from txnsim_lab.http._runs.scenarios import ScenarioRoutes

_PARAMETER: Final = re.compile(r"\\{(\w+)\\}")


class Backend:
    """Answers requests; made inside of a running loop."""

    def __init__(self) -> None:
        only_errors = structlog.make_filtering_bound_logger(logging.ERROR)
        structlog.configure(
            wrapper_class=only_errors
        )  # a run tells its events; its lines are noise
        environment = real_environment()
        scenarios = ScenarioRoutes(environment)
        opened = OpenedRoutes()

        def trace_of(request: Request) -> bytes | None:
            found = opened.trace_of(request)
            return scenarios.trace_of(request) if found is None else found

        nouns: tuple[Noun, ...] = (
            scenarios,
            opened,
            ExplainRoutes(environment.tracer, "127.0.0.1:9092", trace_of),
            LessonRoutes(scenarios.trace_of, scenarios.warm_up),
        )
        self._responders = [
            (operation.method.upper(), _pattern(operation.path), respond)
            for noun in nouns
            for operation, respond in noun.responders()
        ]

    async def answer(
        self, method: str, path: str, query: str = "", body: str = ""
    ) -> tuple[int, str, bytes]:
        """Answer a request.

        Returns:
            Status, media type, and what is answered.
        """
        found = self._found(method, PREFIX + path)
        if found is None:
            answer = as_json(Problem(error=f"{path} is not known where no server is"), status=404)
        else:
            respond, parameters = found
            answer = await _answered(respond, _request(method, path, query, body, parameters))
        return answer.status_code, str(answer.media_type), bytes(answer.body)

    def _found(self, method: str, path: str) -> tuple[Responder, Mapping[str, str]] | None:
        for wanted, pattern, respond in self._responders:
            match = pattern.fullmatch(path)
            if wanted == method and match is not None:
                return respond, match.groupdict()
        return None


async def _answered(respond: Responder, request: Request) -> Response:
    try:
        return await respond(request)
    except RefusedError as error:
        return await refused(request, error)
    except Exception as error:  # noqa: BLE001 - a bug is the answer to the one who asked
        return as_json(Problem(error=f"{type(error).__name__}: {error}"), status=500)


def _pattern(path: str) -> re.Pattern[str]:
    return re.compile(_PARAMETER.sub(r"(?P<\1>[^/]+)", re.escape(path)))


def _request(
    method: str, path: str, query: str, body: str, parameters: Mapping[str, str]
) -> Request:
    content = body.encode()

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": content, "more_body": False}

    length = (b"content-length", str(len(content)).encode())
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": [length],
        "path_params": dict(parameters),
    }
    return Request(scope, receive)


# Traces that a visitor opened from files; kept until the page is closed


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
