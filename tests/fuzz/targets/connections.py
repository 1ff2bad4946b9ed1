"""Requests of every API through the real code of a connection, in virtual time, beside a
neighbour whose waits are exact.

An input is a play of one client: each request is drawn from bytes (``drawing``) or stands there as
it is. A well-behaved neighbour on the same cluster commits transactions between plays; since work
takes no virtual time, all that it waits is what its requests travel, unless it is made to wait for
somebody else.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import Any, Final

from tests.broker.codec.golden.requests import golden_requests
from tests.fuzz.drawing import TOPICS, Draw
from tests.fuzz.target import Target, Violation
from tests.support.clusters import IMPATIENT, options, values
from tests.support.virtual_environment import around
from txnsim.api.registry import SHIPPED
from txnsim.client.cluster import Cluster
from txnsim.client.connection import ClientSettings
from txnsim.client.producer import Producer
from txnsim.controller.controller import TopicToCreate
from txnsim.errors import BadInputError
from txnsim.runtime.trace import TraceLevel
from txnsim.runtime.virtual.run import VirtualLoop
from txnsim.server.cluster import SimCluster
from txnsim.wire import codec

_START_MS: Final = 1_700_000_000_000
_PRODUCE: Final = 0
_ADMINISTRATION: Final = frozenset((20, 21, 27, 33, 37, 43, 44, 45, 49, 50, 51, 57, 64))
"""APIs by which anybody may change what the neighbour has, in a cluster without ACLs: delete its
topic or records, mark its transaction, throttle it, move its leaders, take features back.
"""
_REQUESTS_MAX: Final = 8
_RAW: Final = 200
"""A byte from here on says that a frame follows as it is."""
_OPEN_MAX: Final = 16
"""Connections of attackers that stay open."""
_PLAY_S: Final = 0.02
_NEIGHBOUR_EVERY: Final = 20
_LIFE: Final = 2_000
"""Plays until the cluster is made anew: what attackers leave behind is theirs to leave."""
_NEIGHBOUR_MS_MAX: Final = 10.0
"""Of virtual time for a transaction: ten times the slowest way to the broker and back."""
_QUIET: Final = 20
_SEEDS_A_SECOND: Final = 1.0
"""Of some twenty inputs that are played in a second on a quiet machine: the rest of a short run is
for what is new.
"""


class _TimedLoop(VirtualLoop):
    """Measures the longest turn, by the CPU time of this thread."""

    longest_ns = 0

    def _run_once(self) -> None:
        begun_ns = time.thread_time_ns()
        super()._run_once()  # type: ignore[misc]  # asyncio's own
        self.longest_ns = max(self.longest_ns, time.thread_time_ns() - begun_ns)


class _AttackerConnection(asyncio.Protocol):
    """The attacker's end of a connection, which keeps the bytes that it receives."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.transport: Any = None
        self.requests: deque[tuple[int, int, int, bytes]] = deque()
        """Key, version, correlation id and frame of each request that is not answered."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, fuzz_bytes: bytes) -> None:
        self.received += fuzz_bytes

    def send(self, frames: list[bytes]) -> None:
        for frame in frames:
            if len(frame) >= 8:
                key, version = _signed_int(frame[:2]), _signed_int(frame[2:4])
                self.requests.append((key, version, _signed_int(frame[4:8]), frame))
        self.transport.write(b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames))

    def check(self) -> int:
        """Check the received answers against the requests; return the number of answers."""
        count = 0
        while len(self.received) >= 4:
            size_bytes = int.from_bytes(self.received[:4], "big")
            if len(self.received) < 4 + size_bytes:
                break
            answer = bytes(self.received[4 : 4 + size_bytes])
            del self.received[: 4 + size_bytes]
            self._match_answer(answer)
            count += 1
        return count

    def _match_answer(self, answer: bytes) -> None:
        correlation_id = _signed_int(answer[:4])
        while (
            self.requests
            and self.requests[0][2] != correlation_id
            and _expects_no_answer(self.requests[0])
        ):
            self.requests.popleft()
        if not self.requests:
            raise Violation(f"an answer to {correlation_id}, which nobody has asked")
        api_key, version, expected_number, _ = self.requests.popleft()
        if correlation_id != expected_number:
            raise Violation(
                f"an answer to {correlation_id} in the place of that to {expected_number}"
            )
        accepted = SHIPPED.accepted.get(api_key)
        if accepted is not None and accepted[0] <= version <= accepted[1]:
            codec.read_response(api_key, version, answer)


def _signed_int(fuzz_bytes: bytes) -> int:
    return int.from_bytes(fuzz_bytes, "big", signed=True)


def _expects_no_answer(request: tuple[int, int, int, bytes]) -> bool:
    """Whether a request is a Produce with acks=0."""
    key, _, _, frame = request
    if key != _PRODUCE:
        return False
    try:
        header = codec.read_request_header(frame)
        return bool(codec.decode_request(header, frame).acks == 0)
    except BadInputError:
        return False


class _AttackedCluster:
    """A cluster, attackers and a neighbour."""

    def __init__(self, seed: int) -> None:
        self.loop = _TimedLoop()
        self._environment, self._failures = around(
            self.loop, start_ms=_START_MS, seed=seed, trace_level=TraceLevel.FULL
        )
        self._open: deque[_AttackerConnection] = deque()
        self._written: list[bytes] = []
        self.answers = 0
        self.waits_ms: list[float] = []
        self.run(self._begin())

    def run(self, awaitable: Any) -> Any:
        return self.loop.run_until_complete(awaitable)

    async def _begin(self) -> None:
        self.cluster = SimCluster(
            self._environment,
            options(brokers=1, topics=(("t", 2), ("neighbour", 1)), offsets_topic_num_partitions=2),
        )
        await self.cluster.start()
        for topic_name, config in (
            ("compacted", {"cleanup.policy": "compact"}),
            ("stamped", {"message.timestamp.type": "LogAppendTime"}),
        ):
            self.cluster.metadata.create_topic(
                TopicToCreate(
                    name=topic_name, partition_count=1, replication_factor=1, configs=config
                )
            )
        host, port = self.cluster.bootstrap.rsplit(":", 1)
        self.address = (host, int(port))
        image = self.cluster.metadata.image
        self.ids = [image.topics[topic_name].topic_id for topic_name in TOPICS]
        self._client = Cluster(
            self.cluster.bootstrap,
            settings=ClientSettings(
                client_id="neighbour",
                retry_backoff_ms=IMPATIENT.retry_backoff_ms,
                retry_backoff_max_ms=IMPATIENT.retry_backoff_max_ms,
            ),
            clock=self._environment.clock,
            tasks=self._environment.tasks,
        )
        await self._client.__aenter__()
        self._producer = Producer(self._client, transactional_id="neighbour")
        await self._producer.init_transactions()
        for _ in range(_QUIET):
            await self._transaction()
        self.waits_ms.clear()

    def end(self, *, is_judged: bool) -> None:
        """Check that the neighbour's records are there, once and in order."""
        try:
            if is_judged:
                values_read = self.run(values(self._client, "neighbour", partitions=1))
                if values_read != self._written:
                    raise Violation(
                        f"the neighbour reads {len(values_read)} records, has written "
                        f"{len(self._written)}"
                    )
            self.run(self._stop())
            self._check_callbacks()
        finally:
            self.loop.close()

    async def _stop(self) -> None:
        await self._producer.close()
        await self._client.__aexit__(None, None, None)
        await self.cluster.stop()
        await self._environment.tasks.close()

    def _check_callbacks(self) -> None:
        if self._failures:
            context = self._failures[0]
            self._failures.clear()
            error = context.get("exception")
            raise error if isinstance(error, Exception) else Violation(repr(context))

    # Attackers

    def play(self, frames: list[bytes], *, stays_connected: bool) -> None:
        self.loop.longest_ns = 0
        self.run(self._play(frames, stays_connected=stays_connected))
        self._check_callbacks()

    async def _play(self, frames: list[bytes], *, stays_connected: bool) -> None:
        connection = _AttackerConnection()
        await self.loop.create_connection(lambda: connection, *self.address)
        connection.send(frames)
        await asyncio.sleep(_PLAY_S)
        self.answers += connection.check()
        if stays_connected:
            self._open.append(connection)
        else:
            connection.transport.close()
        if len(self._open) > _OPEN_MAX:
            self._open.popleft().transport.close()

    # The neighbour

    def time_transaction(self) -> None:
        """Run a transaction of the neighbour; raise ``Violation`` if it takes too long."""
        for connection in self._open:
            self.answers += connection.check()
        self.run(self._transaction())
        self._check_callbacks()
        if self.waits_ms[-1] > _NEIGHBOUR_MS_MAX:
            raise Violation(f"the neighbour waited {self.waits_ms[-1]:.3f} ms of virtual time")

    async def _transaction(self) -> None:
        value = str(len(self._written)).encode()
        begun_s = self.loop.time()
        self._producer.begin()
        self._producer.send("neighbour", 0, value)
        await self._producer.commit()
        self.waits_ms.append((self.loop.time() - begun_s) * 1_000)
        self._written.append(value)

    def time_versions(self) -> None:
        """The neighbour asks who is there: what is left to it where anybody may do anything."""
        begun_s = self.loop.time()
        self.run(self._ask_versions())
        waited_ms = (self.loop.time() - begun_s) * 1_000
        self.waits_ms.append(waited_ms)
        if waited_ms > _NEIGHBOUR_MS_MAX:
            raise Violation(f"the neighbour waited {waited_ms:.3f} ms of virtual time")

    async def _ask_versions(self) -> None:
        connection = _AttackerConnection()
        await self.loop.create_connection(lambda: connection, *self.address)
        message = codec.build(codec.request_class(18, 0))
        connection.send([codec.encode_request(18, 0, 77, None, message)[4:]])
        while not connection.check():
            await asyncio.sleep(0.001)
            if self.loop.is_closed() or connection.transport.is_closing():
                raise Violation("the neighbour's connection was closed")
        connection.transport.close()


class _ConnectionPlayer:
    """Plays inputs, on one cluster after the other."""

    def __init__(self, takes_api: Callable[[int], bool], *, life: int, is_judged: bool) -> None:
        self._takes = takes_api
        self._life = life
        self._is_judged = is_judged
        self._apis = [
            (key, low, high) for key, (low, high) in SHIPPED.accepted.items() if takes_api(key)
        ]
        self._attacked_cluster: _AttackedCluster | None = None
        self._number = 0
        self._answers = 0
        self._transactions = 0
        self._total_ms = 0.0
        self._by_wait: Counter[float] = Counter()
        """How often the neighbour waited so long, in virtual ms to a hundredth."""

    def __call__(self, fuzz_bytes: bytes) -> float | None:
        if self._number % self._life == 0:
            self._renew()
        self._number += 1
        attacked_cluster = self._attacked_cluster
        assert attacked_cluster is not None
        try:
            frames = self.frames(fuzz_bytes, attacked_cluster)
            attacked_cluster.play(
                frames, stays_connected=bool(fuzz_bytes) and fuzz_bytes[-1] % 2 == 0
            )
            longest_ms = attacked_cluster.loop.longest_ns / 1e6
            if self._number % _NEIGHBOUR_EVERY == 0:
                if self._is_judged:
                    attacked_cluster.time_transaction()
                else:
                    attacked_cluster.time_versions()
        except Exception:
            self._attacked_cluster, self._number = None, 0  # begin anew: this one is broken
            raise
        return longest_ms

    def frames(self, fuzz_bytes: bytes, attacked_cluster: _AttackedCluster) -> list[bytes]:
        """The request frames that an input stands for."""
        draw = Draw(fuzz_bytes, attacked_cluster.ids)
        frames: list[bytes] = []
        while not draw.is_spent and len(frames) < _REQUESTS_MAX:
            if draw.byte() >= _RAW:
                frame: bytes | None = draw.take(draw.byte() << 8 | draw.byte())
            else:
                frame = draw.request(self._apis, len(frames) + 1)
            if frame is not None and (len(frame) < 2 or self._takes(_signed_int(frame[:2]))):
                frames.append(frame)
        return frames

    def _renew(self) -> None:
        if self._attacked_cluster is not None:
            self._count(self._attacked_cluster)
            attacked_cluster, self._attacked_cluster = self._attacked_cluster, None
            attacked_cluster.end(is_judged=self._is_judged)
        self._attacked_cluster = _AttackedCluster(seed=1)

    def _count(self, attacked_cluster: _AttackedCluster) -> None:
        self._answers += attacked_cluster.answers
        self._transactions += len(attacked_cluster.waits_ms)
        self._by_wait.update(round(wait_ms, 2) for wait_ms in attacked_cluster.waits_ms)
        self._total_ms += sum(attacked_cluster.waits_ms)
        attacked_cluster.answers = 0
        attacked_cluster.waits_ms = []

    def figures(self) -> dict[str, float]:
        """Figures of the neighbour's requests."""
        if self._attacked_cluster is not None:
            self._count(self._attacked_cluster)
        return {
            "answers": self._answers,
            "neighbour's turns": self._transactions,
            "neighbour's mean wait, virtual ms": self._total_ms / max(1, self._transactions),
            "neighbour's p99, virtual ms": self._wait_ms(0.99),
            "neighbour's longest wait, virtual ms": self._wait_ms(1.0),
        }

    def _wait_ms(self, share: float) -> float:
        """The longest wait of this share of the neighbour's turns."""
        turn_count = 0
        for wait_ms, count in sorted(self._by_wait.items()):
            turn_count += count
            if turn_count >= share * self._transactions:
                return wait_ms
        return 0.0


def _seeds(takes_api: Callable[[int], bool]) -> Callable[[], Iterator[bytes]]:
    def seeds() -> Iterator[bytes]:
        apis = [key for key in SHIPPED.accepted if takes_api(key)]
        for frame in golden_requests():
            if takes_api(_signed_int(frame[:2])):
                yield bytes((255, len(frame) >> 8, len(frame) & 0xFF)) + frame
        for number, version in itertools.product(range(len(apis)), (0, 3, 7)):
            yield bytes((0, number, version)) + bytes((1, 1, 0, 1, 0, 2, 1, 3)) * 4

    return seeds


def _is_harmless(key: int) -> bool:
    return key not in _ADMINISTRATION


_APIS: Final = _ConnectionPlayer(_is_harmless, life=_LIFE, is_judged=True)
_ADMINISTRATORS: Final = _ConnectionPlayer(lambda _: True, life=_LIFE // 10, is_judged=False)
TARGETS: Final = {
    "apis": Target(
        play=_APIS,
        seeds=_seeds(_is_harmless),
        length_max=1024,
        seeds_a_second=_SEEDS_A_SECOND,
        counts_codec=False,
        figures=_APIS.figures,
    ),
    "administration": Target(
        play=_ADMINISTRATORS,
        seeds=_seeds(lambda key: key in _ADMINISTRATION),
        length_max=1024,
        seeds_a_second=_SEEDS_A_SECOND,
        counts_codec=False,
        # __transaction_state has grown while brokers ran: Kafka loads no more of it either.
        allowed=frozenset({"txn.load.partitions_changed"}),
        figures=_ADMINISTRATORS.figures,
    ),
}
