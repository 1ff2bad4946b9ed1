"""The control port in the brokers' event loop: uvicorn on a loopback socket.

``txnsim serve`` imports it only if needed, and after the brokers listen.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Final, Protocol, Self

from txnsim.errors import MissingExtraError
from txnsim.runtime.environment import Tasks
from txnsim.runtime.real_world import new_token, tcp_socket
from txnsim.server.cluster import SimCluster
from txnsim.text import host_and_port

try:
    import anyio.lowlevel
    import starlette
    import uvicorn
    from starlette.applications import Starlette

    if find_spec("prometheus_client") is None:  # imported when metrics are asked for
        raise ModuleNotFoundError(name="prometheus_client")
except ImportError as error:
    hint = MissingExtraError.pip_line("http")
    raise MissingExtraError(f"the control port needs {error.name}: {hint}") from error

from txnsim.http._app import ControlApi
from txnsim.http._guard import AccessRules, is_loopback
from txnsim.http._port_log import ControlConnection


class PortApi(Protocol):
    """The application of a control port: ``ControlApi``, or that of a proxy."""

    def app(self, access_rules: AccessRules) -> Starlette: ...

    def close(self) -> None:
        """End all streams."""


NEEDED: Final = (starlette, uvicorn)

HTTP_PROTOCOL: Final = ControlConnection
"""What frames requests: h11, as RFC 9112 has it. Left alone, uvicorn takes httptools where an
environment happens to have it, which reads some requests otherwise.
"""
WEBSOCKET_PROTOCOL: Final = "none"
GRACE_SECONDS: Final = 1
"""How many seconds open requests may continue when the port closes; then they are cut off."""


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers, because the cluster's process handles signals."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Do nothing: signals are left alone."""
        yield

    def cut_off(self) -> None:
        """End all connections and requests that are left, though a listener reads nothing."""
        for connection in tuple(self.server_state.connections):
            if connection.transport is not None:
                connection.transport.abort()
        for task in tuple(self.server_state.tasks):
            task.cancel()


class ControlServer:
    """The control port of one cluster, open inside ``async with``."""

    LOOPBACK: Final = "127.0.0.1"

    def __init__(
        self,
        api: PortApi,
        tasks: Tasks,
        *,
        port: int,
        host: str = LOOPBACK,
        token: str | None = None,
    ) -> None:
        """Create a port that is not open yet.

        Args:
            api: The application; it is closed with the port.
            tasks: Runs the server.
            port: The port number; 0 picks a free one.
            host: The address to listen on, for containers.
            token: The token that callers must send. By default none is required on loopback, and a
                random one elsewhere.
        """
        self._api = api
        self._tasks = tasks
        self._host = host
        self._port = port
        self.url = ""
        self.token = token
        """The token that callers must send; None if none is required. Known once the port is
        open.
        """

    @classmethod
    def of_simulated(
        cls,
        cluster: SimCluster,
        *,
        port: int,
        host: str = LOOPBACK,
        token: str | None = None,
        serves_page: bool = False,
        fork_server: object = None,
    ) -> Self:
        """The control port of a simulated cluster.

        Args:
            cluster: Its tasks serve the port.
            port, host, token: As above.
            serves_page: The page will be opened: what it needs is made ready at once.
            fork_server: The lab's helper of driven runs, if it was forked already; it is closed
            with the
                with the port.
        """
        api = ControlApi(cluster, fork_server)
        if serves_page:
            api.warm_up()
        return cls(api, cluster.environment.tasks, port=port, host=host, token=token)

    async def __aenter__(self) -> ControlServer:
        """Open the port.

        Raises:
            OSError: The port is busy.
        """
        # Starlette's streams import 20 ms of anyio when the first one is sent: rather now.
        await anyio.lowlevel.checkpoint()
        listening_socket = tcp_socket(self._host, self._port)
        # At once, not when uvicorn's task runs: who knows the port may connect, and no other
        # process can bind it any more.
        listening_socket.listen()
        host, port = listening_socket.getsockname()[:2]
        self.url = f"http://{host_and_port(host, port)}"
        is_on_loopback = is_loopback(host)
        if self.token is None and not is_on_loopback:
            self.token = new_token()
        config = uvicorn.Config(
            self._api.app(AccessRules(token=self.token, is_loopback=is_on_loopback)),
            http=HTTP_PROTOCOL,
            ws=WEBSOCKET_PROTOCOL,
            log_config=None,
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=2 * GRACE_SECONDS,
        )
        self._server = _Server(config)
        self._socket = listening_socket
        self._task = self._tasks.spawn(
            self._server.serve(sockets=[listening_socket]), name="control-port"
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the port and wait until its last request is done."""
        self._api.close()
        self._server.should_exit = True
        cut_off_timer = asyncio.get_running_loop().call_later(GRACE_SECONDS, self._server.cut_off)
        await self._task
        cut_off_timer.cancel()
        self._socket.close()
