"""The server under attack, a separate process with a ticker, and the functions that attacks use on
it.
"""

from __future__ import annotations

import contextlib
import mmap
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.attacks.neighbour import TOPIC
from tests.attacks.ticking_server import TICKS
from tests.support.processor_delays import delays_s, undelayed_s
from tests.support.txnsim_server import TxnsimServer
from txnsim.client.raw.connection import RawConnection

_LAUNCHER: Final = Path(__file__).with_name("ticking_server.py")
_SETTLED_S: Final = 1.0
ANSWER_S_MAX: Final = 60.0
"""How long an attack waits for an answer. On a loaded machine every answer takes longer."""
_POLL_S: Final = 0.05


class Attack(NamedTuple):
    """One attack; its description is the first line of its function's docstring."""

    name: str
    play: Callable[[AttackTarget], int]
    """Attacks, and answers how many bytes it has sent."""
    serve: tuple[str, ...] = ()
    """Further arguments of ``txnsim serve``."""
    limit_s: float = 2 * ANSWER_S_MAX
    """How long the attack may take."""
    is_refused: bool = False
    """Whether the neighbour is refused for a while, as documented, and tries again. Then its waits
    have no limit.
    """
    kafka_stores_mib: float = 0.0
    """Bytes that Kafka itself stores for what is asked, beyond those that were sent."""
    prepare: Callable[[Path], tuple[str, ...]] | None = None
    """Writes files of the server into a folder; returns the arguments that name them."""

    @property
    def about(self) -> str:
        """The description of the attack."""
        return (self.play.__doc__ or "").partition("\n")[0]


class AttackTarget:
    """A running server, as attacks see it."""

    def __init__(self, server: TxnsimServer, ticks: mmap.mmap) -> None:
        self._server = server
        self._ticks = ticks
        self._round = 0
        self.resident_mib = 0.0
        """Resident memory before the attack, or after its preparation."""

    # For attacks

    def reset_memory_peak(self) -> None:
        """Measure memory from here. Attacks that prepare their data by many requests call this
        afterwards.
        """
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")  # the peak of the resident set
        self.resident_mib = self.memory_mib("VmRSS")

    def measure_gaps_anew(self) -> None:
        """Forget the loop's gaps so far, for an attack that prepares its data."""
        self._round += 1
        self._ticks[:8] = self._round.to_bytes(8, "little")
        time.sleep(5 * _POLL_S)

    @property
    def ready(self) -> dict[str, Any]:
        """The contents of the ready file."""
        return self._server.ready

    @property
    def address(self) -> str:
        """The first broker, ``host:port``; all brokers share one loop."""
        return self._server.bootstrap.split(",")[0]

    @property
    def http(self) -> str:
        """Address of the control port."""
        assert self._server.http is not None
        return self._server.http

    @property
    def pid(self) -> int:
        """The server's process."""
        return self._server.pid

    def connect(self, address: str | None = None) -> RawConnection:
        """Connect to a broker; to the first one unless an address is given."""
        return RawConnection(
            address or self.address, client_id="attack", answer_timeout_s=ANSWER_S_MAX
        )

    def socket(self, *, receive_buffer_bytes: int = 0) -> socket.socket:
        """The same without any protocol; a small receive buffer makes a slow reader."""
        host, port = self.address.rsplit(":", 1)
        plain_socket = socket.socket()
        if receive_buffer_bytes:
            plain_socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        plain_socket.settimeout(20.0)
        plain_socket.connect((host, int(port)))
        return plain_socket

    # For the rig

    def begin(self) -> None:
        """Measure from now on."""
        self.reset_memory_peak()
        self.measure_gaps_anew()

    def longest_gap_ms(self) -> tuple[float, float]:
        """The longest gap so far, including a current one, and the most CPU time in a gap."""
        _, measured, last_ns, longest_ns, busiest_ns = TICKS.unpack_from(self._ticks)
        running_ns = time.monotonic_ns() - last_ns
        if measured != self._round:
            longest_ns = busiest_ns = 0
        return max(longest_ns, running_ns) / 1e6, busiest_ns / 1e6

    def settle(self, limit_s: float) -> bool:
        """Wait until the loop ticks again without long gaps. Returns whether it does, within a
        limit without the server's waits for a processor.
        """
        begun_s = calm_since_s = time.monotonic()
        delays_before_s = delays_s(self.pid)
        while time.monotonic() - calm_since_s < _SETTLED_S:
            last_ns = TICKS.unpack_from(self._ticks)[2]
            if time.monotonic_ns() - last_ns > 200_000_000:
                calm_since_s = time.monotonic()
            seconds = time.monotonic() - begun_s
            if seconds > limit_s < undelayed_s(seconds, delays_s(self.pid) - delays_before_s):
                return False
            time.sleep(_POLL_S)
        return True

    def memory_mib(self, field_name: str) -> float:
        """``VmRSS`` or ``VmHWM`` of the server."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(field_name):
                return int(line.split()[1]) / 1024
        return 0.0

    @property
    def log_bytes(self) -> int:
        """The size of the server's log."""
        return self._server.log_bytes


@contextlib.contextmanager
def serving(attack: Attack, checkout: Path | None) -> Iterator[AttackTarget]:
    """Start the server for an attack. It is stopped at the end, by force if need be."""
    python_program = (
        sys.executable if checkout is None else str(checkout.resolve() / ".venv/bin/python")
    )
    arguments = ["--topic", f"{TOPIC}:1", "--http", "0", *attack.serve]
    with (
        tempfile.TemporaryDirectory(prefix="txnsim-attack-") as folder_path,
        tempfile.NamedTemporaryFile(prefix="txnsim-ticks-") as file,
    ):
        if attack.prepare is not None:
            arguments += attack.prepare(Path(folder_path))
        file.write(bytes(TICKS.size))
        file.flush()
        with mmap.mmap(file.fileno(), TICKS.size) as ticks:
            server = TxnsimServer(
                launcher=(python_program, str(_LAUNCHER), file.name), arguments=arguments
            )
            with server:
                yield AttackTarget(server, ticks)
