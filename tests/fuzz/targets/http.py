"""The control port's application, asked without a socket, over a cluster in virtual time.

An input reads like HTTP: method, a blank, target; headers, one a line; an empty line; the body.
Scenarios are told in threads, each with a virtual time of its own: the target ``scenarios`` reads
them. What else is read in a thread is read at once here, and its time is not the loop's. No page
starts the helper process of runs: nobody runs any.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import Callable, Iterator
from typing import Any, Final
from unittest.mock import patch
from urllib.parse import unquote

from tests.fuzz.target import Target, Violation
from tests.support.clusters import options
from tests.support.virtual_environment import around
from txnsim.http._app import OPERATIONS, ControlApi
from txnsim.http._openapi import document
from txnsim.http.work_thread import WorkThread
from txnsim.runtime.trace import TraceLevel
from txnsim.runtime.virtual.run import VirtualLoop
from txnsim.server.cluster import SimCluster
from txnsim_lab.scenario.driver_commands import MODULE
from txnsim_lab.scenario.forked_processes import ForkServer

_START_MS: Final = 1_700_000_000_000
_PATIENCE_S: Final = 3.0
"""Of virtual time: who waits longer goes away."""
_LIFE: Final = 200
_IN_THREADS: Final = ("/api/v1/scenarios", "/api/v1/runs")
_ANYWHERE: Final = frozenset((400, 401, 403, 404, 405, 413))
_HOLD: Final = b'{"id":"f","point":"client.request","api":"EndTxn","action":{"do":"hold"}}'
_PLACE: Final = b'{"topic":"orders","partition":0'
_BODIES: Final[dict[tuple[str, str], tuple[bytes, ...]]] = {
    ("post", "/api/v1/clock"): (b'{"advance_ms":1000}', b'{"set_by_ms":-5,"broker":1}'),
    ("post", "/api/v1/topics"): (b'{"name":"x","partitions":2,"configs":{"cleanup.policy":"x"}}',),
    ("post", "/api/v1/faults"): (_HOLD,),
    ("post", "/api/v1/faults/plan"): (b"[" + _HOLD + b"]",),
    ("post", "/api/v1/trace"): (b'{"level":"brief"}',),
    ("post", "/api/v1/leaders"): (_PLACE + b',"leader":1}',),
    ("post", "/api/v1/elections"): (_PLACE + b"}",),
    ("post", "/api/v1/looks"): (_PLACE + b"}",),
    ("post", "/api/v1/verdicts"): (b'[{"kind":"began","at_ms":1,"who":"a"}]',),
    ("post", "/api/v1/snapshots"): (b'{"name":"base"}',),
    ("post", "/api/v1/reset"): (b'{"to":"base"}', b""),
    ("post", "/api/v1/brokers/{id}/kill"): (b'{"lose_unflushed":true}', b""),
    ("post", "/api/v1/brokers/{id}/isolate"): (b'{"from_clients":true}',),
}
_PARAMETERS: Final = {"id": "1", "topic": "orders", "partition": "0", "name": "z01"}


class _ControlLoop(VirtualLoop):
    longest_ns = 0
    _executor_ns = 0

    def _run_once(self) -> None:
        begun_ns = time.thread_time_ns()
        self._executor_ns = 0
        super()._run_once()  # type: ignore[misc]  # asyncio's own
        took_ns = time.thread_time_ns() - begun_ns - self._executor_ns
        self.longest_ns = max(self.longest_ns, took_ns)

    def run_in_executor(
        self, _executor: object, called_function: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        begun_ns = time.thread_time_ns()
        future: asyncio.Future[Any] = self.create_future()
        try:
            future.set_result(called_function(*args))
        except Exception as error:  # noqa: BLE001 - it is the waiter's
            future.set_exception(error)
        self._executor_ns += time.thread_time_ns() - begun_ns
        return future


async def _run_in_loop(_: WorkThread, work: Callable[[], Any]) -> Any:
    return await asyncio.get_running_loop().run_in_executor(None, work)


class _ControlledCluster:
    def __init__(self) -> None:
        self.loop = _ControlLoop()
        self.environment, self.failures = around(
            self.loop, start_ms=_START_MS, trace_level=TraceLevel.BRIEF
        )
        self.cluster = SimCluster(self.environment, options(brokers=1))
        self.run(self.cluster.start())
        self.api = ControlApi(self.cluster, ForkServer(MODULE))
        self.app = self.api.app()

    def run(self, awaitable: Any) -> Any:
        with patch.object(WorkThread, "do", _run_in_loop):
            return self.loop.run_until_complete(awaitable)

    def end(self) -> None:
        try:
            self.api.close()
            self.run(self._stop())
        finally:
            self.loop.close()

    async def _stop(self) -> None:
        await self.cluster.stop()
        await self.environment.tasks.close()


class _HttpPlayer:
    def __init__(self) -> None:
        self._controlled_cluster: _ControlledCluster | None = None
        self._number = 0
        self._operations = [
            (re.compile(re.sub(r"{\w+}", "[^/]+", path)), path, set(methods))
            for path, methods in document(OPERATIONS)["paths"].items()
        ]
        self._paths = document(OPERATIONS)["paths"]

    def __call__(self, fuzz_bytes: bytes) -> float | None:
        request = _parse_request(fuzz_bytes)
        if request is None:
            return 0.0
        if self._number % _LIFE == 0:
            if self._controlled_cluster is not None:
                former, self._controlled_cluster = self._controlled_cluster, None
                former.end()
            self._controlled_cluster = _ControlledCluster()
        self._number += 1
        controlled_cluster = self._controlled_cluster
        assert controlled_cluster is not None
        controlled_cluster.loop.longest_ns = 0
        try:
            status = controlled_cluster.run(_answer_status(controlled_cluster, *request))
            if controlled_cluster.failures:
                context = controlled_cluster.failures[0]
                error = context.get("exception")
                raise error if isinstance(error, Exception) else Violation(repr(context))
        except Exception:
            self._controlled_cluster, self._number = None, 0
            raise
        self._check(request[0], request[1]["path"], status)
        return controlled_cluster.loop.longest_ns / 1e6

    def _check(self, method: str, path: str, status: int | None) -> None:
        """Raise ``Violation`` for a status that the OpenAPI document does not declare."""
        if status is None:
            return
        if status >= 500 and status != 503:
            raise Violation(f"{method} {path} is answered {status}")
        if status in _ANYWHERE:
            return
        for pattern, path_template, methods in self._operations:
            if pattern.fullmatch(path) and method.lower() in methods:
                declared_statuses = self._paths[path_template][method.lower()]["responses"]
                if str(status) not in declared_statuses:
                    raise Violation(
                        f"{method} {path_template} is answered {status}, "
                        f"declared: {declared_statuses}"
                    )
                return


def _parse_request(fuzz_bytes: bytes) -> tuple[str, dict[str, Any], bytes] | None:
    head, _, body = fuzz_bytes.partition(b"\n\n")
    request_line, _, header_lines = head.partition(b"\n")
    method, _, target = request_line.partition(b" ")
    if not method.isalpha() or not target.startswith(b"/"):
        return None
    raw_path, _, query = target.partition(b"?")
    path = unquote(raw_path.decode("latin-1"))
    if path.startswith(_IN_THREADS):
        return None
    headers = [(b"host", b"localhost")]
    for header_line in header_lines.split(b"\n"):
        name, colon, record_value = header_line.partition(b":")
        if colon and name:
            headers.append((name.lower().strip(), record_value.strip()))
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method.decode().upper(),
        "scheme": "http",
        "path": path,
        "raw_path": raw_path,
        "query_string": query,
        "root_path": "",
        "headers": headers,
        "client": ("127.0.0.1", 5),
        "server": ("127.0.0.1", 80),
    }
    return method.decode().upper(), scope, body


async def _answer_status(
    controlled_cluster: _ControlledCluster, _method: str, scope: dict[str, Any], body: bytes
) -> int | None:
    """The status that is answered; None where it takes too long."""
    statuses: list[int] = []
    disconnected_event = asyncio.Event()
    chunks = [body[: len(body) // 2], body[len(body) // 2 :]]

    async def receive() -> dict[str, Any]:
        if chunks:
            return {"type": "http.request", "body": chunks.pop(0), "more_body": bool(chunks)}
        await disconnected_event.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(controlled_cluster.app(scope, receive, send), _PATIENCE_S)
    disconnected_event.set()
    if len(statuses) > 1:
        raise Violation(f"answered {len(statuses)} times: {statuses}")
    return statuses[0] if statuses else None


def _seeds() -> Iterator[bytes]:
    for path, methods in document(OPERATIONS)["paths"].items():
        if path.startswith(_IN_THREADS):
            continue
        filled_path = re.sub(r"{(\w+)}", lambda match: _PARAMETERS.get(match[1], "1"), path)
        for method in methods:
            names = [
                parameter["name"]
                for parameter in methods[method].get("parameters", ())
                if parameter["in"] == "query"
            ]
            query = "&".join(f"{name}=1" for name in names)
            head = f"{method.upper()} {filled_path}{'?' if query else ''}{query}\n\n".encode()
            for body in _BODIES.get((method, path), (b"",)):
                yield head + body
    yield b"GET /healthz\nOrigin: http://evil\nSec-Fetch-Site: cross-site\n\n"
    yield b"GET /api/v1/events?from=0\nLast-Event-ID: 5\n\n"


TARGETS: Final = {
    "http": Target(
        play=_HttpPlayer(),
        seeds=_seeds,
        length_max=1_024,
        words=(b"orders", b"null", b"1e99", b"%2F"),
    )
}
