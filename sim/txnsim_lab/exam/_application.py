"""The application of a situation, which obeys its library, and the cluster and driver that it uses.
The application does what a library's error asks for: it repeats a call whose error is retriable,
aborts if the error says so, and opens a new producer if the old one is dead. So a library is judged
by what happens to applications that follow it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final, TypedDict, Unpack

import msgspec

from txnsim.client import requests
from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.errors import RetriableError
from txnsim.client.inspection.topic_reading import ReadRecord, read_topic
from txnsim.client.offsets import LATEST_TIMESTAMP
from txnsim.client.producer import Producer
from txnsim.client.txn_requests import TxnRequests
from txnsim.client.versions import VersionedRequest, VersionRange
from txnsim.errors import ClientError, ConfigError, ErrorCode
from txnsim.testing.cluster import AsyncSimulatedKafka
from txnsim.testing.faults import AsyncFault
from txnsim.types import CONSUMER_OFFSETS_TOPIC, IsolationLevel, TopicPartition, partition_for
from txnsim.wire.batch import Record, build_batch
from txnsim_lab.exam._driver import Answer, Driver, LibraryError
from txnsim_lab.exam._ledger import Ledger, LedgerEntry, ReportedEnd
from txnsim_lab.exam._session import DriverSession
from txnsim_lab.exam.results import MissError, NotAskedError
from txnsim_lab.exam.targets import TOPICS, OpenedTarget
from txnsim_lab.scenario.practise_situation import VERIFICATION
from txnsim_lab.target.cluster import Ability

READ_COMMITTED: Final = "read_committed"
TOPIC_NAME: Final = "t"
PARTITIONS: Final = TOPICS[TOPIC_NAME]
INPUT_TOPIC: Final = "input"
"""Name of the topic whose offsets groups commit."""
NAME_FIELDS: Final = ("topic", "transactional_id", "group")
"""Fields of a fault rule that name a topic, id or group of the situation."""
TIME_OUT_PATIENCE_MS: Final = 30_000
CLOCK_ADVANCE_MS: Final = 120_000
"""Time by which the clock of a simulated cluster is moved: longer than any transaction's
timeout.
"""
EXPIRING_TIMEOUT_MS: Final = 16_000
"""Timeout of a transaction that is to time out on a real cluster, where that takes real time.
Longer than the delivery of a record may take (``PATIENCE_MS``), as some libraries require.
"""
END_PATIENCE_MS: Final = 5_000
ENDED_STATES: Final = ("Empty", "CompleteCommit", "CompleteAbort", "Dead")
OPEN_STATES: Final = ("Ongoing", "PrepareEpochFence", "PrepareAbort")
"""States of a transaction that has not timed out yet."""
CLIENT_ID: Final = "exam"
"""The client id of drivers: faults strike and count only its requests."""
TRANSACTIONAL_ID: Final = "shop"
REQUEST_TIMEOUT_MS: Final = 2_000
PATIENCE_MS: Final = 15_000
SESSION_TIMEOUT_MS: Final = 6_000
"""Session timeout of a member of a classic group: the smallest that a broker allows."""
DEFAULT_BOUNDS: Final = {
    "transaction_timeout_ms": 60_000,
    "request_timeout_ms": REQUEST_TIMEOUT_MS,
    "patience_ms": PATIENCE_MS,
}
CALL_ATTEMPTS_MAX: Final = 10
"""Maximum number of attempts of a call whose error is retriable."""
RETRY_PAUSE_S: Final = 0.1
NEXT_TRANSACTION_PAUSE_S: Final = 1.0
"""Pause after a transaction that failed although the fault was over: librdkafka goes on refusing
records of a topic until it has fetched metadata.
"""
POLLS_MAX: Final = 20
POLL_MS: Final = 400
_END_OF_DECISION: Final = {"commit": ReportedEnd.COMMITTED, "abort": ReportedEnd.ABORTED}


class TransactOptions(TypedDict, total=False):
    """Options of ``Application.transact``, so that a call of ``must_transact`` is checked."""

    producer: str
    group: str
    position: int
    waits: bool
    member: str
    needs_positions: bool


class Application(DriverSession):
    """The application of one situation, with its target."""

    def __init__(self, opened_target: OpenedTarget, driver: Driver) -> None:
        super().__init__(driver)
        self.target = opened_target.target
        self.ledger = Ledger()
        self.topic, self.partitions = TOPIC_NAME, PARTITIONS
        """Topic of the records that drivers send, and its partitions."""
        self._opened = opened_target
        self.names_of_choices: list[str] = []
        """Sentences on behaviour in which the library differs from the Java client, and may."""
        self.rules_that_must_strike: list[AsyncFault] = []
        self.position_by_partition: dict[int, int] = {}
        """The reader's position after its last poll, by partition."""
        self.tells_positions = True
        """Whether the library reports positions, by its last answer; True at first."""
        self.dead_names: set[str] = set()
        """Producers and consumers that were closed because the library called them dead."""
        self.opened_names: set[str] = set()
        """Names of the producers and consumers that were opened."""
        self.move_count = 1
        """How often a leader or coordinator moves in a situation: with 3 there, back, and to a
        third broker.
        """
        self._id_by_producer: dict[str, str] = {}
        """Transactional ids, by the name of the producer."""

    @property
    def kafka(self) -> AsyncSimulatedKafka:
        """The simulated cluster.

        Raises:
            NotAskedError: The cluster is real: the situation needs more than a proxy can do.
        """
        return self._opened.kafka

    # What the library is asked

    def name(self, plain_name: str) -> str:
        """The name of a topic, an id or a group in the cluster, with the prefix of the
        situation.
        """
        return self.target.prefix + plain_name

    async def init(
        self,
        producer: str = "p",
        *,
        transactional_id: str = TRANSACTIONAL_ID,
        calls_max: int = CALL_ATTEMPTS_MAX,
        state: str = "",
        **bounds: int,
    ) -> Answer:
        """Open a transactional producer; repeat the call while its error is retriable.

        Args:
            producer: Name of the producer.
            transactional_id: Its transactional id.
            calls_max: Maximum number of calls.
            state: State that an earlier producer returned, if this one continues from it.
            bounds: Bounds that differ from the default, by their names in the contract.
        """
        self.dead_names.discard(producer)
        self.opened_names.add(producer)
        self._id_by_producer[producer] = transactional_id
        for _ in range(calls_max):
            answer = await self.do(
                "init",
                producer=producer,
                bootstrap=self.target.bootstrap,
                client_id=CLIENT_ID,
                transactional_id=self.name(transactional_id),
                **{**DEFAULT_BOUNDS, **bounds},
                **({"state": state} if state else {}),
            )
            if answer.error is None or not answer.error.retriable:
                return answer
            await asyncio.sleep(RETRY_PAUSE_S)
        return answer

    async def must_init(
        self,
        producer: str = "p",
        *,
        transactional_id: str = TRANSACTIONAL_ID,
        state: str = "",
        **bounds: int,
    ) -> None:
        """Open a producer, which must succeed; see ``init``.

        Raises:
            MissError: It fails.
        """
        answer = await self.init(producer, transactional_id=transactional_id, state=state, **bounds)
        self.expect_done(answer, "init")

    async def open(self, *values: str, producer: str = "p") -> LedgerEntry:
        """Begin a transaction, send the records, and leave it open; the records are
        acknowledged.
        """
        transaction = self.ledger.begin(*values)
        await self.must("begin", producer=producer)
        for value in values:
            self.expect_done(await self.send(value, producer), f"sending {value}")
        return transaction

    async def must_send(self, transaction: LedgerEntry, value: str, producer: str) -> None:
        """Send one more record in an open transaction."""
        self.expect_done(await self.send(value, producer), f"sending {value}")
        transaction.values = (*transaction.values, value)

    async def must_be_refused(self, value: str, producer: str) -> LibraryError:
        """Send a record with a fenced producer; returns the library's error.

        Raises:
            MissError: The library reports that the record is in the log.
        """
        answer = await self.send(value, producer)
        if answer.error is None:
            raise MissError("the library told the older producer that its record is in the log")
        return answer.error

    async def must_end(
        self, ledger_entry: LedgerEntry, producer: str = "p", decision: str = "commit"
    ) -> None:
        """End a transaction; the library must report this end.

        Raises:
            MissError: It reports another end, or none.
        """
        await self.end(ledger_entry, producer=producer, decision=decision)
        self.expect_end(ledger_entry, _END_OF_DECISION[decision])

    async def must_transact(
        self, *values: str, end: str = "commit", **transact_options: Unpack[TransactOptions]
    ) -> None:
        """Make a whole transaction, whose end the library must report; see ``transact``.

        Raises:
            MissError: It reports another end, or none.
        """
        self.expect_end(
            await self.transact(*values, end=end, **transact_options), _END_OF_DECISION[end]
        )

    async def send(self, value: str, producer: str = "p", *, waits: bool = True) -> Answer:
        """Send one record; its last letter determines the partition."""
        return await self.do(
            "send",
            producer=producer,
            topic=self.name(self.topic),
            partition=ord(value[-1]) % self.partitions,
            value=value,
            wait=waits,
        )

    async def transact(
        self,
        *values: str,
        producer: str = "p",
        end: str = "commit",
        group: str = "",
        position: int = -1,
        waits: bool = True,
        member: str = "",
        needs_positions: bool = True,
    ) -> LedgerEntry:
        """Make a whole transaction, following the library's errors.

        Args:
            values: Values of its records.
            producer: Name of the producer.
            end: commit or abort.
            group: Group whose positions are committed in the transaction.
            position: The position to commit.
            waits: Whether each record is acknowledged before the next one is sent.
            member: The consumer, a member of the group, in whose name the positions are committed.
            needs_positions: Whether the positions are essential; otherwise they are left out if the
                driver has no such command.

        Raises:
            NotAskedError: The driver has no such command.
        """
        transaction = self.ledger.begin(*values, group=group, position=position)
        answer = await self.fill(values, producer, waits=waits)
        if group and answer.error is None:
            try:
                answer = await self.send_offsets(group, position, producer=producer, member=member)
            except NotAskedError:
                if needs_positions:
                    raise
                transaction.group = ""
        if answer.error is None:
            await self.end(transaction, producer=producer, decision=end)
        else:
            await self.give_up(transaction, producer, answer.error)
        return transaction

    async def fill(self, values: Sequence[str], producer: str, *, waits: bool = True) -> Answer:
        """Begin a transaction and send records, up to the first error."""
        answer = await self.do("begin", producer=producer)
        for value in values:
            if answer.error is None:
                answer = await self.send(value, producer, waits=waits)
        return answer

    async def send_offsets(
        self, group: str, position: int, *, producer: str = "p", member: str = ""
    ) -> Answer:
        """Send a group's position on the input partition with the open transaction."""
        return await self.do(
            "send-offsets",
            producer=producer,
            group=self.name(group),
            offsets=[[self.name(INPUT_TOPIC), 0, position]],
            **({"consumer": member} if member else {}),
        )

    async def end(
        self, transaction: LedgerEntry, *, producer: str = "p", decision: str = "commit"
    ) -> ReportedEnd:
        """End a transaction, obeying the library's errors; returns the end that the library
        reported.
        """
        for _ in range(CALL_ATTEMPTS_MAX):
            if decision == "commit":
                transaction.reported_end = ReportedEnd.UNKNOWN
            answer = await self.do(decision, producer=producer)
            if answer.error is None:
                transaction.reported_end = _END_OF_DECISION[decision]
                return transaction.reported_end
            if answer.error.fatal or not (answer.error.retriable or answer.error.abortable):
                break
            if answer.error.abortable:
                if decision == "abort":
                    break
                decision = "abort"
            await asyncio.sleep(RETRY_PAUSE_S)
        await self.close(producer)
        return transaction.reported_end

    async def give_up(
        self, transaction: LedgerEntry, producer: str, error: LibraryError
    ) -> ReportedEnd:
        """Abort after an error in the middle of a transaction; close the producer if the error is
        fatal.
        """
        if error.fatal:
            await self.close(producer)
            return transaction.reported_end
        return await self.end(transaction, producer=producer, decision="abort")

    async def close(self, name: str) -> None:
        """Close a producer or a consumer; the answer is ignored."""
        self.dead_names.add(name)
        await self.do("close", name=name)

    async def goes_on(self, producer: str = "p", *, value: str = "after") -> bool:
        """Commit another transaction: with the same producer, or with a new one if the library has
        called that one dead.

        Returns:
            Whether it took a new one.

        Raises:
            MissError: It does not succeed.
        """
        for attempt_suffix in ("-1", "-2"):
            was_dead = producer in self.dead_names
            if was_dead:
                answer = await self.init(producer, transactional_id=self._id_by_producer[producer])
                self.expect_done(answer, "init of a new producer")
            transaction = await self.transact(value + attempt_suffix, producer=producer)
            if transaction.reported_end is ReportedEnd.COMMITTED:
                return was_dead or attempt_suffix == "-2"
            await asyncio.sleep(NEXT_TRANSACTION_PAUSE_S)
        raise MissError(f"the application can commit nothing more{self.after_errors}")

    # Readers

    async def consumer(
        self,
        name: str = "c",
        *,
        group: str = "readers",
        topic: str = TOPIC_NAME,
        partitions: int = PARTITIONS,
        isolation: str = READ_COMMITTED,
    ) -> None:
        """Open a reader that starts at the beginning."""
        self.opened_names.add(name)
        await self.must(
            "consumer",
            consumer=name,
            **{**self.reading(group, topic), "isolation": isolation},
            partitions=partitions,
        )

    async def subscribe(
        self, name: str, group: str, protocol: str, *, topic: str = INPUT_TOPIC
    ) -> None:
        """Open a member of a group that reads a topic."""
        self.dead_names.discard(name)
        self.opened_names.add(name)
        reading_fields = self.reading(group, topic)
        await self.must(
            "subscribe",
            consumer=name,
            **reading_fields,
            protocol=protocol,
            session_timeout_ms=SESSION_TIMEOUT_MS,
        )

    def reading(self, group: str, topic: str) -> dict[str, Any]:
        """Make the arguments that all commands have which open a reader."""
        return {
            "bootstrap": self.target.bootstrap,
            "client_id": CLIENT_ID,
            "group": self.name(group),
            "topic": self.name(topic),
            "isolation": READ_COMMITTED,
        }

    async def poll(
        self, value_count: int, *, end_offset: int = -1, name: str = "c", partition: int = 1
    ) -> list[str]:
        """Poll repeatedly; returns the values in order.

        Args:
            value_count: Poll until this number of values was read, and once more.
            end_offset: Poll until the reader has this position, if the library reports positions.
            name: Name of the reader.
            partition: The partition of the position.
        """
        values: list[str] = []
        for is_last in (*[False] * POLLS_MAX, True):
            position = (
                self.position_by_partition.get(partition, -1)
                if self.tells_positions
                else end_offset
            )
            if len(values) >= value_count and position >= end_offset and not is_last:
                continue
            values += await self.poll_once(name)
        return values

    async def poll_once(self, name: str = "c") -> list[str]:
        """Poll once; returns the values."""
        answer = await self.must("poll", consumer=name, timeout_ms=POLL_MS)
        self.tells_positions = answer.positions is not None
        self.position_by_partition = {
            int(partition_number): offset
            for partition_number, offset in (answer.positions or {}).items()
        }
        return [value for _, _, value in answer.records]

    async def ends(self, name: str = "c") -> dict[int, int]:
        """The end offsets by partition, as the library reports them."""
        answer = await self.must("end-offsets", consumer=name)
        return {int(partition_number): offset for partition_number, offset in answer.ends.items()}

    def position(self, partition: int) -> int | None:
        """The reader's position after its last poll.

        Raises:
            NotAskedError: The library does not report positions.
        """
        if not self.tells_positions:
            raise NotAskedError("the library does not tell where a reader stands")
        return self.position_by_partition.get(partition)

    # The cluster

    async def neighbour(self) -> OldProtocolProducer:
        """A producer of our own, on a simulated cluster, with the old protocol."""
        cluster = await self.kafka.rebuilt.client("neighbour")
        self.kafka.rebuilt.guests.append(cluster.close)
        neighbouring_producer = OldProtocolProducer(
            cluster=cluster,
            wait_for_state=self.kafka.transactions.wait_for_state,
            transactional_id="neighbour",
        )
        await neighbouring_producer.init()
        return neighbouring_producer

    async def arm(self, *, must_strike: bool = True, **rule_fields: Any) -> AsyncFault:
        """Arm a fault on the driver's requests, unless the rule has another injection point.

        Raises:
            NotAskedError: The proxy in front of this cluster can't do it.
        """
        if str(rule_fields.get("point", "")).startswith("client."):
            rule_fields.setdefault("client_id", CLIENT_ID)
        if rule_fields["action"] != "pass":
            self.steps.append(f"fault {msgspec.json.encode(rule_fields).decode()}")
        rule_fields |= {
            field: self.name(rule_fields[field]) for field in NAME_FIELDS if field in rule_fields
        }
        try:
            fault = await self._opened.faults.arm(may_miss=True, **rule_fields)
        except (ValueError, ConfigError) as error:
            raise NotAskedError(f"not on this cluster: {error}") from None
        if must_strike:
            self.rules_that_must_strike.append(fault)
        return fault

    async def disarm(self, fault: AsyncFault) -> None:
        """End a fault."""
        self.steps.append(f"the fault at {fault.rule.api or 'the connection'} is over")
        await fault.disarm()

    async def release(self, fault: AsyncFault) -> None:
        self.steps.append(f"the {fault.rule.api} that was held goes on")
        await fault.release()

    async def requests(self, api: str | None = None) -> AsyncFault:
        """Count the driver's requests from now on."""
        return await self.arm(must_strike=False, point="client.request", api=api, action="pass")

    async def time_out(self) -> None:
        """Wait until the coordinator aborts a transaction by its timeout.

        Raises:
            MissError: There is no open transaction.
        """
        self.steps.append("the transaction runs out of time")
        await self.target.wait_out(
            CLOCK_ADVANCE_MS if self._can_move_clock else EXPIRING_TIMEOUT_MS
        )
        admin, transactional_id = await self.target.admin(), self.name(TRANSACTIONAL_ID)
        deadline = admin.cluster.deadline(TIME_OUT_PATIENCE_MS)
        while True:
            description = (await admin.describe_transactions([transactional_id]))[transactional_id]
            transaction_state = (
                str(description) if isinstance(description, ClientError) else description.state
            )
            if transaction_state == "CompleteAbort":
                return
            if transaction_state not in OPEN_STATES or deadline.has_passed:
                raise MissError(f"no transaction has timed out: {transaction_state}")
            await asyncio.sleep(RETRY_PAUSE_S)

    async def expect_end_at_coordinator(self) -> None:
        """Wait until a transaction that the library reports as ended has also ended at the
        coordinator, before its timeout.

        Raises:
            MissError: It is still open.
        """
        admin, transactional_id = await self.target.admin(), self.name(TRANSACTIONAL_ID)
        deadline = admin.cluster.deadline(END_PATIENCE_MS)
        while True:
            description = (await admin.describe_transactions([transactional_id]))[transactional_id]
            if isinstance(description, ClientError) or description.state in ENDED_STATES:
                return
            if deadline.has_passed:
                raise MissError(
                    f"told as ended, but {description.state}: readers wait until it times out"
                )
            await asyncio.sleep(RETRY_PAUSE_S)

    async def gets_free(self, partition: int) -> None:
        """Wait until no open transaction blocks the readers of a partition, before any timeout.

        Raises:
            MissError: A transaction is still open in it.
        """
        deadline = (await self.target.admin()).cluster.deadline(END_PATIENCE_MS)
        while True:
            stable_offset = await self.end_of(partition, reads_committed=True)
            if stable_offset == (end_offset := await self.end_of(partition)):
                return
            if deadline.has_passed:
                raise MissError(
                    f"readers get to {stable_offset} of {end_offset}: a transaction is left open"
                )
            await asyncio.sleep(RETRY_PAUSE_S)

    @property
    def _can_move_clock(self) -> bool:
        return Ability.CLOCK in self.target.abilities

    @property
    def expiring_ms(self) -> int:
        """Timeout for a transaction that is to time out; short on a real cluster, where it takes
        real time.
        """
        return (
            DEFAULT_BOUNDS["transaction_timeout_ms"]
            if self._can_move_clock
            else EXPIRING_TIMEOUT_MS
        )

    async def home_of_group(self, group: str) -> TopicPartition:
        """The partition of ``__consumer_offsets`` that keeps a group."""
        offsets_topic = await (await self.target.admin()).wait_for_topic(CONSUMER_OFFSETS_TOPIC)
        partition_index = partition_for(self.name(group), len(offsets_topic.partitions))
        return TopicPartition(CONSUMER_OFFSETS_TOPIC, partition_index)

    async def move_leader_of(self, partition: TopicPartition, *, to: int | None = None) -> None:
        """Move the leader of a partition to another replica.

        Args:
            partition: The partition.
            to: The id of the broker; unless given, any other one in sync.

        Raises:
            NotAskedError: There is no such replica.
            TargetError: This cluster can't do it.
        """
        admin = await self.target.admin()
        visited_ids: list[int] = []
        for move_number in range(1 if to is not None else self.move_count):
            partition_metadata = await admin.describe_partition(partition)
            candidate_ids = [
                replica
                for replica in partition_metadata.isr
                if replica != partition_metadata.leader_id and to in (replica, None)
            ]
            if not candidate_ids:
                raise NotAskedError(f"no other replica of {partition} is in sync")
            visited_ids.append(partition_metadata.leader_id)
            preferred_ids = (
                candidate_ids
                if move_number == 1
                else [replica for replica in candidate_ids if replica not in visited_ids]
            )
            await self.target.move_leader(
                partition, self.target.number_of((preferred_ids or candidate_ids)[0])
            )

    async def kill(self, broker_id: int) -> None:
        """Kill a broker; it stays dead until the situation is over.

        Raises:
            TargetError: This cluster can't do it.
        """
        await self.target.kill(self.target.number_of(broker_id))

    async def move_leader(self, partition: int) -> None:
        """Move the leader of a partition of the topic."""
        self.steps.append(f"partition {partition} gets another leader")
        await self.move_leader_of(TopicPartition(self.name(self.topic), partition))

    async def move_coordinator(self) -> None:
        """Move the coordinator of the transactional id to another broker, which loads its log."""
        self.steps.append("the transactional id gets another coordinator")
        await self.move_leader_of(await self.target.home_of_id(self.name(TRANSACTIONAL_ID)))

    async def move_group(self, group: str) -> None:
        """Move the coordinator of a group to another broker."""
        self.steps.append("the group gets another coordinator")
        await self.move_leader_of(await self.home_of_group(group))

    async def kill_coordinator(self) -> None:
        """Kill the broker of the transaction coordinator; it stays dead."""
        self.steps.append("the coordinator's broker dies")
        admin = await self.target.admin()
        await self.kill(
            await admin.leader_of(await self.target.home_of_id(self.name(TRANSACTIONAL_ID)))
        )

    async def with_leader(self, group: str, partition: int) -> None:
        """Arrange that one broker coordinates a group and leads a partition of the topic, and does
        not coordinate the transactional id. To be called before the library asks for any of them.
        """
        admin = await self.target.admin()
        await self.position_of(group)  # whoever asks for a group first makes the topic of groups
        home_partition = await self.home_of_group(group)
        if await admin.leader_of(home_partition) == await admin.leader_of(
            await self.target.home_of_id(self.name(TRANSACTIONAL_ID))
        ):
            await self.move_leader_of(home_partition)
        broker = await admin.leader_of(home_partition)
        led_partition = TopicPartition(self.name(self.topic), partition)
        if await admin.leader_of(led_partition) != broker:
            await self.move_leader_of(led_partition, to=broker)

    async def kill_group_coordinator(self, group: str) -> None:
        """Kill the broker of a group's coordinator; it stays dead."""
        self.steps.append("the broker of the group's coordinator dies")
        admin = await self.target.admin()
        home_partition = await self.home_of_group(group)
        await self.kill(await admin.leader_of(home_partition))

    async def fill_input(self, *values: str) -> None:
        """Write records to the first partition of the input topic, with our own client."""
        admin = await self.target.admin()
        async with Producer(admin.cluster) as producer:
            for value in values:
                await producer.send(self.name(INPUT_TOPIC), 0, value.encode())

    # The log

    async def end_of(self, partition: int, *, reads_committed: bool = False) -> int:
        """The end offset of a partition of the topic, once the markers of ended transactions are
        written; with ``reads_committed``, the present last stable offset.
        """
        if not reads_committed:
            await self.records()
        isolation = (
            IsolationLevel.READ_COMMITTED if reads_committed else IsolationLevel.READ_UNCOMMITTED
        )
        admin = await self.target.admin()
        return await admin.offset_of(
            TopicPartition(self.name(self.topic), partition), LATEST_TIMESTAMP, isolation
        )

    async def records(self, *, settle_ms: int = 2_000) -> tuple[ReadRecord, ...]:
        """All records of the topic, each with the end of its transaction."""
        return await read_topic(
            await self.target.admin(), self.name(self.topic), settle_ms=settle_ms
        )

    async def judge(self, groups: Sequence[str] = ()) -> list[str]:
        """Compare everything that the library reported with the log; returns the differences."""
        committed_values = await self.committed_values()
        position_by_group = {group: await self.position_of(group) for group in groups}
        return list(self.ledger.misses(committed_values, position_by_group))

    async def committed_values(self) -> list[str]:
        records = await self.records()
        return [(record.value or b"").decode() for record in records if record.is_committed]

    async def position_of(self, group: str, topic: str = INPUT_TOPIC, partition: int = 0) -> int:
        topic_partition = TopicPartition(self.name(topic), partition)
        admin = await self.target.admin()
        return (await admin.committed_positions(self.name(group), [topic_partition]))[
            topic_partition
        ]


async def run_together(*coroutines: Coroutine[Any, Any, Any]) -> list[Any]:
    """Run several acts at the same time. If one fails, the others are cancelled, so that no command
    is sent after the situation's end.
    """
    try:
        async with asyncio.TaskGroup() as task_group:
            tasks = [task_group.create_task(coroutine) for coroutine in coroutines]
    except ExceptionGroup as group_error:
        raise group_error.exceptions[0] from None
    return [task.result() for task in tasks]


# A transactional producer of our own, which writes what a library is to read: transactions without
# a record, and compressed ones, whatever the library itself would write.

END_TXN_VERSIONS: Final = VersionRange(0, 4)
"""Versions of EndTxn that keep the epoch (transactions v1)."""
PRODUCE_VERSIONS: Final = VersionRange(3, 11)
"""Versions of Produce that do not add the partition to the transaction."""


class OldProtocolProducer(msgspec.Struct, kw_only=True):
    """A producer with the old protocol (transactions v1), which the tested library must not
    disturb.
    """

    cluster: Cluster
    wait_for_state: Callable[[str, str], Awaitable[object]]
    transactional_id: str
    _identity: tuple[int, int] = (-1, -1)
    _sequence_by_partition: dict[TopicPartition, int] = {}

    async def init(self) -> None:
        """Get a producer id."""
        request = TxnRequests(self.transactional_id).init(timeout_ms=60_000)
        answer = await self._ask_coordinator(request)
        self._identity = (answer.producer_id, answer.producer_epoch)

    async def transact(
        self,
        partition: TopicPartition,
        values: Sequence[str],
        *,
        is_commit: bool,
        codec: int = 0,
    ) -> None:
        """Make a whole transaction, and wait for its marker.

        Args:
            partition: The partition.
            values: Values of the records of one batch; without values, no batch is sent.
            is_commit: Whether it commits; otherwise it aborts.
            codec: The codec's number; 0 for none.
        """
        producer_id, epoch = self._identity
        identity_fields = {"producer_id": producer_id, "producer_epoch": epoch}
        add_request = TxnRequests(self.transactional_id, **identity_fields).add_partitions(
            partitions=[partition]
        )
        await self._ask_coordinator(add_request, _error_of_partition)
        if values:
            await self._produce(partition, values, codec)
        end_request = TxnRequests(self.transactional_id, **identity_fields).end(
            committed=is_commit, accepted_versions=END_TXN_VERSIONS
        )
        await self._ask_coordinator(end_request)
        awaited_state = "CompleteCommit" if is_commit else "CompleteAbort"
        await self.wait_for_state(self.transactional_id, awaited_state)

    async def hang(self, admin: Admin, partition: TopicPartition, value: str) -> None:
        """Write a record of a transaction that no coordinator knows, so that none will end it."""
        await admin.set_broker_default(VERIFICATION, "false")
        try:
            await self._produce(partition, [value], 0)
        finally:
            await admin.set_broker_default(VERIFICATION, None)

    async def _ask_coordinator(
        self,
        request: VersionedRequest,
        error_of: Callable[[Any], int] = lambda answer: int(answer.error_code),
    ) -> Any:
        """Send a request to the coordinator, which may move on a busy machine, until it decides.

        Raises:
            RetriableError: It refuses.
        """
        deadline, backoff = self.cluster.deadline(), self.cluster.backoff()
        while True:
            coordinator_id = await self.cluster.coordinator(
                self.transactional_id, deadline=deadline
            )
            answer = await self.cluster.ask(coordinator_id, request)
            error = ErrorCode(error_of(answer))
            if error == ErrorCode.none:
                return answer
            if deadline.has_passed or not error.retriable:
                raise RetriableError(f"{request.api.name}: {error.name.upper()}", error=error)
            self.cluster.forget_coordinator(self.transactional_id)
            await backoff.wait(deadline)

    async def _produce(self, partition: TopicPartition, values: Sequence[str], codec: int) -> None:
        producer_id, epoch = self._identity
        first_sequence = self._sequence_by_partition.get(partition, 0)
        self._sequence_by_partition[partition] = first_sequence + len(values)
        now_ms = self.cluster.clock.now_ms()
        batch = build_batch(
            [Record(timestamp_ms=now_ms, key=None, value=value.encode()) for value in values],
            timestamp_ms=now_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=first_sequence,
            is_transactional=True,
            compression=codec,
        )
        partition_metadata = await self.cluster.leader(partition)
        request = requests.produce(
            {partition: batch},
            id_by_topic={},
            transactional_id=self.transactional_id,
            accepted_versions=PRODUCE_VERSIONS,
        )
        answer = await self.cluster.ask(partition_metadata.leader_id, request)
        assert not answer.responses[0].partition_responses[0].error_code, answer


def _error_of_partition(answer: Any) -> int:
    """The error of an AddPartitionsToTxn response for its only partition."""
    (topic,) = answer.results_by_topic_v3_and_below
    (partition_result,) = topic.results_by_partition
    return int(partition_result.partition_error_code)
