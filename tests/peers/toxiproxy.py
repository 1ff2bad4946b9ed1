"""toxiproxy in front of brokers: the proxy through which Sarama's tests disturb connections."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from tests.peers.go_tests import PEERS, go, required_module
from tests.peers.suite import PeerError
from tests.support.apache_kafka import hold_lock

_SOURCE_FOLDER: Final = Path(__file__).with_name("go_sources") / "toxiproxy"
_MODULE: Final = "github.com/Shopify/toxiproxy/v2"
PORT: Final = 8474
"""The well-known port of its own API."""

_START_TIMEOUT_S: Final = 20.0
_POLL_S: Final = 0.05


def server() -> Path:
    """Path of Toxiproxy's server, built on first use."""
    module = required_module(_MODULE, by_path=_SOURCE_FOLDER / "go.mod")
    target_path = PEERS / f"toxiproxy-{module.version}"
    with hold_lock(PEERS / "toxiproxy.lock"):
        if not target_path.exists():
            go(
                "build",
                "-trimpath",
                "-o",
                str(target_path),
                f"{_MODULE}/cmd/server",
                directory=_SOURCE_FOLDER,
            )
    return target_path


@contextlib.contextmanager
def proxies(routes: Mapping[str, tuple[str, str]], directory: Path) -> Iterator[None]:
    """Run it with these proxies, name → (listens at, leads to).

    Raises:
        PeerError: It does not start.
    """
    config = directory / "toxiproxy.json"
    rows = [
        {"name": route_name, "listen": listen, "upstream": upstream, "enabled": True}
        for route_name, (listen, upstream) in routes.items()
    ]
    config.write_text(json.dumps(rows))
    command = [str(server()), "-host", "127.0.0.1", "-port", str(PORT), "-config", str(config)]
    with (directory / "toxiproxy.log").open("wb") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
        )
    try:
        _await_start(process, directory)
        yield
    finally:
        process.terminate()
        process.wait()


def _await_start(process: subprocess.Popen[bytes], directory: Path) -> None:
    deadline_s = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < deadline_s and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", PORT), timeout=1):
            return
        time.sleep(_POLL_S)
    raise PeerError(f"toxiproxy does not start:\n{(directory / 'toxiproxy.log').read_text()}")
