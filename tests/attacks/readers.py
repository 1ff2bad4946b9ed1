"""What reads what others made, with a hostile one: ``python -m tests.attacks.readers [NAME ...]``.

The command line reads traces, configuration, and the answers of somebody's cluster; the proxy reads
its upstream. Each reader is a process of its own. A line tells how long it took (s), its processor
time (cpu), its peak of memory (MiB), its exit status, and how much it printed. A limit that it
broke is told below the line, and ``--strict`` makes it exit status 1.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx
import msgspec

from tests.attacks.patterns import make_ids
from tests.attacks.target import Attack, AttackTarget, serving
from tests.support.processor_delays import delays_s, undelayed_s
from tests.support.txnsim_server import TxnsimServer
from txnsim.client.raw.connection import RawConnection
from txnsim.wire import codec

TXNSIM: Final = (sys.executable, "-m", "txnsim")
MEMORY_MIB_MAX: Final = 400.0
"""Memory limit of a reader that keeps nothing. The program alone uses 60 to 150."""
SECONDS_MAX: Final = 60.0
"""Processor time of a reader with its children."""
GIVEN_UP_CPU_S: Final = 300.0
"""A reader that works is given up after so long."""
WAIT_S_MAX: Final = 300.0
"""A reader that only waits is given up after so long, without its waits for a processor."""
METADATA: Final = 3
BROKERS: Final = 20_000
ORDERS: Final = "\x1b]0;taken\x07\x1b[2J\x9b31m\r\nTransactionalId forged\u202e\u2066"
"""Sets a title, clears the screen, forges a line, turns the direction of writing."""
_ORDER: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class ReaderEnd(NamedTuple):
    """How a reading command has ended: status, time, memory."""

    seconds: float
    """By the clock, without waits for a processor."""
    mib: float
    """Peak of the largest process."""
    status: int
    output: str
    cpu_s: float = 0.0


class HostileInput(NamedTuple):
    """One hostile thing and what reads it; its description is its function's docstring."""

    name: str
    play: Callable[[Path], Iterator[ReaderEnd]]
    statuses: tuple[int, ...]
    """The allowed exit statuses."""
    mib_max: float = MEMORY_MIB_MAX
    cpu_s_max: float = SECONDS_MAX

    def broken_limits(self, reader_end: ReaderEnd) -> Iterator[str]:
        """The limits that a reader broke, in words."""
        if reader_end.cpu_s > self.cpu_s_max:
            yield f"{reader_end.cpu_s:.0f} s of a processor"
        if reader_end.seconds > WAIT_S_MAX:
            yield f"{reader_end.seconds:.0f} s"
        if reader_end.mib > self.mib_max:
            yield f"{reader_end.mib:.0f} MiB"
        if reader_end.status not in self.statuses:
            yield f"it ended with {reader_end.status}: {reader_end.output[-300:]!r}"
        if "Traceback (most recent call last)" in reader_end.output:
            yield f"a traceback: {reader_end.output[-300:]!r}"
        if orders := sorted(set(_ORDER.findall(reader_end.output))):
            yield f"a terminal would obey {orders}"


def endless_files(folder: Path) -> Iterator[ReaderEnd]:
    """A device without an end as configuration, client properties, trace, history and story."""
    link_path = folder / "endless.yaml"
    link_path.symlink_to("/dev/zero")
    for arguments in (
        ("serve", "--port", "0", "--config", str(link_path)),
        ("txns", "--bootstrap-server", "127.0.0.1:1", "--command-config", "/dev/zero", "list"),
        ("trace", "brief", "/dev/zero"),
        ("check", "/dev/zero"),
        ("check-hypothesis", "/dev/zero"),
        ("logs", "dumped", "/dev/zero"),
        ("lesson", "--handed-in", "/dev/zero"),
        ("scenario", "run", str(link_path)),
    ):
        yield run_reader(*arguments)


def wrong_configuration(folder: Path) -> Iterator[ReaderEnd]:
    """A configuration of 300,000 unknown names, and one that names a file with a secret."""
    many_settings, nosy_directory = folder / "many.properties", folder / "nosy.properties"
    many_settings.write_text(
        "".join(f"some.name.{name_number}=x\n" for name_number in range(300_000))
    )
    secret_file = folder / "secret"
    secret_file.write_text("a-secret\n" * 100)
    kinds = "".join(f"ssl.{kind}.{{0}}\n" for kind in ("keystore", "truststore"))
    nosy_directory.write_text(
        "listeners=SSL://127.0.0.1:0\nlistener.security.protocol.map=SSL:SSL\n"
        + kinds.format("type=PEM")
        + kinds.format(f"location={secret_file}")
        + "authorizer.class.name=os.system\n"
    )
    for file in (many_settings, nosy_directory):
        reader_end = run_reader("serve", "--port", "0", "--config", str(file))
        assert "a-secret" not in reader_end.output
        yield reader_end


def environment(folder: Path) -> Iterator[ReaderEnd]:
    """Variables TXNSIM_… that name devices, absurd numbers and topics without an end."""
    for variables in (
        {"TXNSIM_CONFIG": "/dev/zero"},
        {"TXNSIM_BROKERS": "9" * 5_000},
        {"TXNSIM_TOPICS": "a:2147483647"},
        {"TXNSIM_TOKEN": ORDERS},
        {"TXNSIM_AS_VERSION": ORDERS},
    ):
        yield run_reader("serve", "--port", "0", environment=variables, cwd=folder)


def names(_folder: Path) -> Iterator[ReaderEnd]:
    """Ids, topics' groups and clients whose names are orders to a terminal, in every list."""
    serve = ("--brokers", "1", "--topic", "orders:1", "--trace", "brief")
    with serving(Attack("names", lambda _: 0, serve=serve), None) as target:
        name = f"id{ORDERS}"
        make_ids(target, [name])
        _begin_transaction(target, name)
        for command_line in (
            ("txns", "list"),
            ("txns", "describe", "--transactional-id", name),
            ("txns", "find-hanging", "--all"),
            ("txns", "why", "orders", "0"),
            ("txns", "describe-producers", "--topic", "orders", "--partition", "0"),
        ):
            command, *arguments = command_line
            yield run_reader(command, "--bootstrap-server", target.address, *arguments)
        for path in ("report", "trace"):
            answer_text = httpx.get(f"{target.http}/api/v1/{path}").text
            if path == "trace":
                file = Path(_folder / "trace.jsonl")
                file.write_text(answer_text)
                yield run_reader("trace", "brief", str(file))
            else:
                yield ReaderEnd(0.0, 0.0, 0, answer_text)


def proxy_of_many(folder: Path) -> Iterator[ReaderEnd]:
    """An upstream that names 20,000 brokers, before a proxy that a client asks for Metadata."""

    def many(key: int, version: int, frame: bytes) -> Iterator[bytes]:
        if key != METADATA:
            yield frame
            return
        yield _metadata(
            version,
            frame,
            lambda first_broker: tuple(
                dataclasses.replace(first_broker, node_id=type(first_broker.node_id)(broker_number))
                for broker_number in range(1, BROKERS + 1)
            ),
        )

    yield from _play_before_proxy(many, folder)


def proxy_of_huge(folder: Path) -> Iterator[ReaderEnd]:
    """An upstream whose answer claims 2 GiB and goes on, before a proxy with a rule armed."""

    def huge(key: int, _version: int, frame: bytes) -> Iterator[bytes]:
        if key != METADATA:
            yield frame
            return
        yield frame[:4]
        for _ in range(600):
            yield bytes(1 << 20)

    yield from _play_before_proxy(huge, folder, claimed=2**31 - 1)


def _play_before_proxy(
    answers: Callable[[int, int, bytes], Iterator[bytes]], folder: Path, *, claimed: int = 0
) -> Iterator[ReaderEnd]:
    with TxnsimServer(arguments=("--brokers", "1", "--topic", "orders:1")) as server:
        upstream = _Upstream(server.bootstrap, answers, claimed=claimed)
        ready_file = folder / "ready.json"
        options = ("--bootstrap-server", upstream.address, "--port", "0", "--http", "0")
        process = start_reader("proxy", *options, "--ready-file", str(ready_file))
        try:
            while not ready_file.exists() and process.poll() is None:
                time.sleep(0.05)
            facts = msgspec.json.decode(ready_file.read_bytes())
            delayed = {"id": "r", "point": "client.response", "api": "Metadata"}
            rule = {**delayed, "action": {"do": "delay", "delay_ms": 1}}
            httpx.post(f"{facts['http']}/api/v1/faults", json=rule).raise_for_status()
            upstream.is_hostile = True
            for _ in range(3):
                _ask_metadata(facts["bootstrap"].split(",")[0])
            process.terminate()
            yield await_reader_end(process)
        finally:
            process.kill()
            upstream.close()


def _ask_metadata(address: str) -> None:
    with (
        suppress(OSError),
        RawConnection(address, client_id="victim", answer_timeout_s=20.0) as connection,
    ):
        connection.ask(METADATA, 12, topics=None)


def _metadata(version: int, frame: bytes, read_brokers: Callable[[Any], tuple[Any, ...]]) -> bytes:
    """The Metadata answer with other brokers, which are made from its first one."""
    correlation_id, message = codec.read_response(METADATA, version, frame)
    changed_message = dataclasses.replace(message, brokers=read_brokers(message.brokers[0]))
    body = codec.encode_body(changed_message)
    return codec.frame_response(METADATA, version, correlation_id, body)[4:]


class _Upstream:
    """A proxy in front of a server that poses as its only broker. Once it ``is_hostile``, it
    changes answers further.
    """

    def __init__(
        self,
        address: str,
        answers: Callable[[int, int, bytes], Iterator[bytes]],
        *,
        claimed: int,
    ) -> None:
        self._behind = address.rsplit(":", 1)
        self._answers = answers
        self._claimed = claimed
        self.is_hostile = False
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._socket.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._socket.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        host, port = self._behind
        with (
            suppress(OSError, EOFError),
            client,
            socket.create_connection((host, int(port))) as upstream,
        ):
            while True:
                request_frame = _frame(client)
                upstream.sendall(len(request_frame).to_bytes(4, "big") + request_frame)
                key, version = (
                    int.from_bytes(request_frame[position : position + 2], "big")
                    for position in (0, 2)
                )
                frame = _frame(upstream)
                if key == METADATA:
                    frame = _metadata(version, frame, self._led_here)
                if not self.is_hostile:
                    client.sendall(len(frame).to_bytes(4, "big") + frame)
                    continue
                answer_pieces = self._answers(key, version, frame)
                first_piece = next(answer_pieces)
                size = self._claimed if self._claimed and key == METADATA else len(first_piece)
                client.sendall(size.to_bytes(4, "big") + first_piece)
                for answer_piece in answer_pieces:
                    client.sendall(answer_piece)

    def _led_here(self, broker: Any) -> tuple[Any, ...]:
        host, port = self.address.rsplit(":", 1)
        return (dataclasses.replace(broker, host=host, port=type(broker.port)(port)),)


def _frame(connection: socket.socket) -> bytes:
    return _exactly(connection, int.from_bytes(_exactly(connection, 4), "big"))


def _exactly(connection: socket.socket, size: int) -> bytes:
    received_bytes = bytearray()
    while len(received_bytes) < size:
        chunk = connection.recv(size - len(received_bytes))
        if not chunk:
            raise EOFError
        received_bytes += chunk
    return bytes(received_bytes)


def _begin_transaction(target: AttackTarget, transactional_id: str) -> None:
    """Open a transaction of this id on one partition."""
    with target.connect() as connection:
        description = connection.ask(
            65, 0, transactional_ids=[transactional_id]
        ).transaction_states[0]
        connection.ask(
            *(24, 3),
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=description.producer_id,
            v3_and_below_producer_epoch=description.producer_epoch,
            v3_and_below_topics=[{"name": "orders", "partitions": [0]}],
        )


# Processes


def start_reader(
    *arguments: str, environment: dict[str, str] | None = None, cwd: Path | None = None
) -> subprocess.Popen[str]:
    """Start the program with these arguments."""
    return subprocess.Popen(
        [*TXNSIM, *arguments],
        env={**os.environ, **(environment or {})},
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )


def run_reader(
    *arguments: str, environment: dict[str, str] | None = None, cwd: Path | None = None
) -> ReaderEnd:
    """The program with these arguments, to its end; a server that begins is ended."""
    return await_reader_end(start_reader(*arguments, environment=environment, cwd=cwd))


def await_reader_end(process: subprocess.Popen[str]) -> ReaderEnd:
    """Wait for the reader's end, and request it if it takes too long."""
    begun_s = time.monotonic()
    output: list[str] = []
    assert process.stdout is not None
    reading_thread = threading.Thread(
        target=lambda: output.append(process.stdout.read()),  # type: ignore[union-attr]
        daemon=True,
    )
    reading_thread.start()
    most_mib = cpu_s = delay_s = 0.0
    while process.poll() is None:
        pids = _with_children(process.pid)
        most_mib = max(most_mib, *map(_peak_mib, pids))
        cpu_s = max(cpu_s, sum(map(_cpu_s, pids)))
        delay_s = max(delay_s, delays_s(*pids))
        seconds = undelayed_s(time.monotonic() - begun_s, delay_s)
        if cpu_s > GIVEN_UP_CPU_S or seconds > WAIT_S_MAX:
            for process_id in reversed(pids):
                with suppress(ProcessLookupError):
                    os.kill(process_id, signal.SIGKILL)
        time.sleep(0.05)
    reading_thread.join()
    seconds = undelayed_s(time.monotonic() - begun_s, delay_s)
    return ReaderEnd(seconds, most_mib, process.returncode, "".join(output), cpu_s)


def _with_children(process_id: int) -> list[int]:
    """A process and all that came from it."""
    pids = [process_id]
    for parent_pid in pids:
        for file in Path(f"/proc/{parent_pid}/task").glob("*/children"):
            with suppress(OSError):  # it has ended
                pids += map(int, file.read_text().split())
    return pids


def _cpu_s(process_id: int) -> float:
    """Processor time of a process and of its children that have ended; 0 if it is gone."""
    with suppress(OSError):
        fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def _peak_mib(process_id: int) -> float:
    with suppress(OSError):
        for line in Path(f"/proc/{process_id}/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) / 1024
    return 0.0


HEAD: Final = f"{'reader':<26} {'s':>7} {'cpu':>7} {'MiB':>8} {'status':>7} {'printed':>9}\n"
OWN_READERS: Final = {
    reader.name: reader
    for reader in (
        HostileInput("endless-files", endless_files, statuses=(1, 2)),
        HostileInput("wrong-configuration", wrong_configuration, statuses=(2,)),
        HostileInput("environment", environment, statuses=(2,)),
        HostileInput("names", names, statuses=(0, 1, 3, 4)),
        HostileInput("proxy-of-many", proxy_of_many, statuses=(0,)),
        HostileInput("proxy-of-huge", proxy_of_huge, statuses=(0,)),
    )
}


def main(argv: Sequence[str] | None = None) -> int:
    """Play all inputs, or those that are named."""
    from tests.attacks.hostile_files import INPUTS  # it plays with the functions above

    readers = {**OWN_READERS, **{reader.name: reader for reader in INPUTS}}
    parser = argparse.ArgumentParser(prog="python -m tests.attacks.readers", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *readers], metavar="NAME")
    parser.add_argument("--strict", action="store_true", help="fail where a limit is broken")
    options = parser.parse_args(argv)
    sys.stdout.write(HEAD)
    has_broken = False
    for reader_name in options.names or readers:
        reader = readers[reader_name]
        with _folder() as folder:
            for number, reader_end in enumerate(reader.play(folder), 1):
                sys.stdout.write(
                    f"{f'{reader_name} {number}':<26} {reader_end.seconds:>7.1f}"
                    f" {reader_end.cpu_s:>7.1f} {reader_end.mib:>8.1f}"
                    f" {reader_end.status:>7} {len(reader_end.output):>9}\n"
                )
                for limit in reader.broken_limits(reader_end):
                    has_broken = True
                    sys.stdout.write(f"    OVER: {limit}\n")
                sys.stdout.flush()
    return 1 if options.strict and has_broken else 0


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="txnsim-readers-") as path:
        yield Path(path)


if __name__ == "__main__":
    sys.exit(main())
