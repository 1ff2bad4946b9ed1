"""Answers the page on a site, where there is no server: the operations on runs and lessons, by the
functions of the control port. It runs in a worker of the browser; there is no cluster.
"""

from __future__ import annotations

import logging
from typing import Final

import msgspec
import structlog
from starlette.requests import Request

from txnsim.errors import BadInputError
from txnsim.http.direct_port import DirectPort
from txnsim.http.operation import PREFIX, Noun, Operation
from txnsim.http.replies import Body, RefusedError
from txnsim.runtime.real_world import real_environment
from txnsim.trace.trace_file import Recording
from txnsim_lab.http._explaining import ExplainRoutes
from txnsim_lab.http._runs.lessons import LessonRoutes
from txnsim_lab.http._runs.scenarios import ScenarioRoutes
from txnsim_lab.trace.findings import Finding, findings
from txnsim_lab.trace.followed_trace import FollowedTrace
from txnsim_lab.trace.payload_error import explaining


class Backend:
    """Answers requests. It is made in a running event loop."""

    def __init__(self) -> None:
        error_logger_class = structlog.make_filtering_bound_logger(logging.ERROR)
        # A run is told by its events; log lines would be noise.
        structlog.configure(wrapper_class=error_logger_class)
        environment = real_environment()
        scenario_routes = ScenarioRoutes(environment)
        opened_routes = OpenTraceRoutes()

        def trace_of(request: Request) -> bytes | None:
            opened_trace = opened_routes.trace_of(request)
            return scenario_routes.trace_of(request) if opened_trace is None else opened_trace

        nouns: tuple[Noun, ...] = (
            scenario_routes,
            opened_routes,
            ExplainRoutes(environment.tracer, "127.0.0.1:9092", trace_of),
            LessonRoutes(scenario_routes.trace_of, scenario_routes.warm_up),
        )
        self._port = DirectPort(nouns, unknown_path_text="is not known where no server is")

    async def answer(
        self, method: str, path: str, query: str = "", body: str = ""
    ) -> tuple[int, str, bytes]:
        """Answer a request; its path is below ``PREFIX``.

        Returns:
            Status, media type, and what is answered.
        """
        return await self._port.answer(method, path, query, body)


# Traces that a visitor opened from files; kept until the page is closed


_OPENED_ID_START: Final = "opened-"
"""The beginning of the ids of opened traces."""


class OpenTrace(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of a request to open a trace."""

    name: str
    trace: str
    """The text of the trace: JSON lines."""


class OpenedTrace(msgspec.Struct, frozen=True, kw_only=True):
    """An opened trace; requests about it name its id."""

    id: str
    events: int
    findings: tuple[Finding, ...]
    """What judges have found in it."""


class OpenTraceRoutes(Noun):
    """The route that opens a trace."""

    def __init__(self) -> None:
        self._opened_traces: list[bytes] = []

    @Operation("post", f"{PREFIX}/traces", refusals=("422",))
    async def open(self, _request: Request, body: Body[OpenTrace]) -> OpenedTrace:
        """Keep a trace, so that requests can ask about it."""
        posted_trace = await body.read()
        trace_bytes = posted_trace.trace.encode()
        try:
            recording = Recording.from_lines(posted_trace.name, trace_bytes.splitlines())
            with explaining(posted_trace.name, recording):
                # Once to the end: later questions about this trace are about any of its events.
                FollowedTrace.of_recording(recording).facts()
                trace_findings = findings(recording)
        except BadInputError as error:
            raise RefusedError(422, str(error)) from error
        self._opened_traces.append(trace_bytes)
        return OpenedTrace(
            id=f"{_OPENED_ID_START}{len(self._opened_traces)}",
            events=len(recording.events),
            findings=trace_findings,
        )

    def trace_of(self, request: Request) -> bytes | None:
        """The opened trace that the parameter ``of`` of a request names; None where it names no
        opened trace.

        Raises:
            RefusedError: There is none of that id.
        """
        trace_id = request.query_params.get("of", "")
        if not trace_id.startswith(_OPENED_ID_START):
            return None
        trace_number = trace_id.removeprefix(_OPENED_ID_START)
        if not trace_number.isdecimal() or not 1 <= int(trace_number) <= len(self._opened_traces):
            raise RefusedError(404, f"no trace {trace_id!r} was opened")
        return self._opened_traces[int(trace_number) - 1]
