"""Problems that users have reported for one library, tested with every library. Versions that fail
and pass are in tests/clients/RESULTS.md.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from txnsim.testing.faults import AsyncFault
from txnsim.types import TRANSACTION_STATE_TOPIC, TopicPartition
from txnsim.wire.compression import GZIP
from txnsim_lab.exam._application import CLIENT_ID, TRANSACTIONAL_ID, Application, run_together
from txnsim_lab.exam._ledger import ReportedEnd
from txnsim_lab.exam.results import MissError
from txnsim_lab.exam.situation import Situation, situation
from txnsim_lab.exam.situations._error_codes import LEVELS_WITH_ADDITIONS
from txnsim_lab.exam.situations._unknown_ends import SHORT_CALL_TIMEOUT_MS

LEARNS_S: Final = 25
FOUND_S: Final = 10
CLOSES_S: Final = 8
UNREACHABLE_S: Final = 3
UNKNOWN_S: Final = 2.5
TOO_LARGE_CHARS: Final = 1_100_000
"""Characters of a record that is larger than any library sends by default."""


def _error_action(error: str) -> dict[str, Any]:
    return {"do": "error", "error": error}


@situation("fenced-by-administrator-slowly", "fenced", "An administrator fences the id while the"
           " replicas of the coordinator's log are slow: does it wait for them?",
           about=("KAFKA-16047",))  # fmt: skip
async def fenced_slowly(app: Application) -> None:
    """The coordinator waits for its log as long as the InitProducerId request says that
    transactions may take. The Java client says the admin's request timeout since KAFKA-16047.
    """
    await app.must_init()
    await app.transact("a-1")
    delay_action = {"do": "delay", "delay_ms": 150}
    await app.arm(
        must_strike=False,
        point="log.append",
        role="follower",
        topic=TRANSACTION_STATE_TOPIC,
        action=delay_action,
    )
    await app.must("fence", bootstrap=app.target.bootstrap, client_id=CLIENT_ID,
                    transactional_id=app.name(TRANSACTIONAL_ID))  # fmt: skip
    await app.close("p")
    await app.goes_on()


@situation("fenced-while-recovering", "fenced", "A newer producer has come while the older one has"
           " an error from which it recovers with a new epoch: does it learn that it is dead?",
           about=("librdkafka #3800",))  # fmt: skip
async def while_recovering(app: Application) -> None:
    """PRODUCER_FENCED of InitProducerId is fatal in the Java client (KIP-588)."""
    await app.must_init("old")
    transaction = await app.open("lost-1", producer="old")
    gap_error_action = _error_action("OUT_OF_ORDER_SEQUENCE_NUMBER")
    await app.arm(point="client.request", api="Produce", limit=1, action=gap_error_action)
    refusal_error = await app.must_be_refused("lost-3", "old")
    await app.must_init("new")
    async with app.within(LEARNS_S, "that the older producer learns that it is dead"):
        await app.give_up(transaction, "old", refusal_error)
        if "old" not in app.dead_names:
            transaction = await app.transact("lost-5", producer="old")
            if transaction.reported_end is ReportedEnd.COMMITTED:
                raise MissError("the older producer has committed")
    await app.goes_on("new")


@situation("new-epoch-in-open-transaction", "fenced", "A leader has forgotten the producer, which"
           " needs a new epoch, and its transaction is open: does the library get one without"
           " fencing itself?", about=("librdkafka #3928",))  # fmt: skip
async def raise_epoch_of_open_transaction(app: Application) -> None:
    """InitProducerId in an open transaction raises the epoch to abort it, and refuses the older one
    when it is asked again. So the Java client ends the transaction first (KIP-360). To call the
    producer dead at once is a choice.
    """
    await app.must_init()
    transaction = await app.open("a-1")
    unknown_producer_action = _error_action("UNKNOWN_PRODUCER_ID")
    await app.arm(point="client.request", api="Produce", limit=1, action=unknown_producer_action)
    answer = await app.send("b-2")
    if answer.error is None:
        transaction.values = ("a-1", "b-2")
        await app.must_end(transaction)
    elif answer.error.fatal:
        await app.close("p")
    else:
        await app.end(transaction, decision="abort")
        if app.dead_names:
            raise MissError(f"to abort was right, and then the producer is dead{app.after_errors}")
    await app.goes_on()


@situation("init-slow", "fenced", "The first producer id takes longer than the application waits,"
           " which asks again with the same producer.", about=("KAFKA-13412",))  # fmt: skip
async def init_slow(app: Application) -> None:
    """The answer comes while nothing waits for it. In the Java client ``initTransactions`` throws
    TimeoutException, and may be called again.
    """
    hold_rule = await app.arm(point="client.response", api="InitProducerId", limit=1, action="hold")
    bounds: dict[str, Any] = {"patience_ms": 2_000, "request_timeout_ms": 20_000}

    async def come() -> None:
        await hold_rule.wait_until_struck()
        await asyncio.sleep(3)
        await app.release(hold_rule)
        await asyncio.sleep(1)

    answer, _ = await run_together(app.init(calls_max=1, **bounds), come())
    if answer.error is not None:
        if not answer.error.retriable:
            raise MissError(f"init is slow, and fails{app.after_errors}")
        if (await app.init(**bounds)).error is not None:
            raise MissError(f"init fails when it is asked again{app.after_errors}")
    await app.goes_on()


@situation("abort-behind-slow-markers", "end unknown", "The markers of a commit are slow; the next"
           " transaction hands a record over and is aborted at once: may the application go on with"
           " the same producer?", levels=LEVELS_WITH_ADDITIONS,
           about=("librdkafka #4849",))  # fmt: skip
async def abort_behind_slow_markers(app: Application) -> None:
    """AddPartitionsToTxn gets CONCURRENT_TRANSACTIONS. An EndTxn that does not wait for its retry
    finds the transaction complete, and gets INVALID_TXN_STATE. In the Java client EndTxn waits for
    the retry.
    """
    await app.must_init()
    delay_action = {"do": "delay", "delay_ms": 400}
    await app.arm(point="peer.request", api="WriteTxnMarkers", action=delay_action)
    for index in range(4):
        await app.must_transact(f"a{index}-1")
        transaction = app.ledger.begin(f"b{index}-2")
        await app.must("begin", producer="p")
        await app.send(*transaction.values, waits=False)
        await asyncio.sleep(0.1)
        await app.must_end(transaction, decision="abort")
        if app.dead_names:
            raise MissError(f"the producer is dead{app.after_errors}")


@situation("commit-nothing", "middle", "A transaction without a record is committed, and one is"
           " aborted: may the application do so?", about=("librdkafka 1.6.1",))  # fmt: skip
async def commit_nothing(app: Application) -> None:
    """The coordinator knows of no transaction, and would answer INVALID_TXN_STATE. The Java client
    sends no EndTxn, and the call succeeds.
    """
    await app.must_init()
    await app.must_transact()
    await app.must_transact(end="abort")
    await app.goes_on()


@situation("record-too-large", "middle", "A record is larger than the library sends, and the"
           " application looks at its commit alone: is it told that the record is missing?",
           about=("KAFKA-9279",))  # fmt: skip
async def too_large(app: Application) -> None:
    """In the Java client the commit fails, as a record of its transaction has failed. A library
    that refuses the record at once passes, too.
    """
    await app.must_init()
    await app.transact("a-1", f"{'x' * TOO_LARGE_CHARS}-1", waits=False)
    await app.goes_on()


@situation("partition-never-added", "middle", "AddPartitionsToTxn is not answered until the records"
           " have expired, and the application looks at its commit alone.",
           levels=LEVELS_WITH_ADDITIONS, about=("librdkafka #3325",))  # fmt: skip
async def never_added(app: Application) -> None:
    """What the coordinator never heard of is not committed. In the Java client the commit fails, as
    records of its transaction have failed.
    """
    await app.must_init(patience_ms=SHORT_CALL_TIMEOUT_MS)
    fault_rule = await app.arm(point="client.request", api="AddPartitionsToTxn", action="drop")

    async def heal() -> None:
        await asyncio.sleep(7)
        await app.disarm(fault_rule)

    await run_together(app.transact("a-1", "b-2", waits=False), heal())
    await app.goes_on()


@situation("produce-lost-then-refused", "middle", "The connection breaks before a record is in. On"
           " the next one it is late, and refused for a moment, with other records behind it: does"
           " the producer live on?", about=("librdkafka #4438",))  # fmt: skip
async def lost_then_refused(app: Application) -> None:
    """The records after the lost one get OUT_OF_ORDER_SEQUENCE_NUMBER, which is no loss: the Java
    client commits, other libraries abort and go on.
    """
    await app.must_init()
    transaction = await app.open("a-1")
    partition_fields: dict[str, Any] = {"topic": "t", "partition": 1, "limit": 1}
    disconnect_fault = await app.arm(
        point="client.request", api="Produce", action="disconnect", **partition_fields
    )
    delay_action = {"do": "delay", "delay_ms": 400}
    await app.arm(
        point="client.request",
        api="Produce",
        after=disconnect_fault.id,
        action=delay_action,
        **partition_fields,
    )
    refuse_action = _error_action("NOT_ENOUGH_REPLICAS")
    await app.arm(
        must_strike=False,
        point="log.append",
        role="leader",
        after=disconnect_fault.id,
        action=refuse_action,
        **partition_fields,
    )
    transaction.values = ("a-1", "b-1", "c-1", "d-1")
    for value in transaction.values[1:]:
        answer = await app.send(value, waits=False)
        app.expect_done(answer, f"handing over {value}")
        await asyncio.sleep(0.03)  # each is a batch of its own
    await app.end(transaction)
    if app.dead_names:
        raise MissError(f"the producer is dead{app.after_errors}")
    await app.goes_on()


@situation("topic-unknown-for-a-while", "middle", "A broker that has just started does not know the"
           " topic yet: is what is sent afterwards in the log?",
           about=("librdkafka 1.9.0",))  # fmt: skip
async def topic_unknown(app: Application) -> None:
    """A producer that restarts its sequences sends a batch that looks like a duplicate, and the
    leader drops it. The Java client continues its sequences (KIP-98).
    """
    await app.must_init()
    await app.must_transact("a-1")
    unknown_topic_action, moved_leader_action = (
        _error_action("UNKNOWN_TOPIC_OR_PARTITION"),
        _error_action("NOT_LEADER_OR_FOLLOWER"),
    )
    metadata_rule = await app.arm(
        point="client.response", api="Metadata", action=unknown_topic_action, must_strike=False
    )
    await app.arm(point="client.request", api="Produce", limit=1, action=moved_leader_action)

    async def learn() -> None:
        await asyncio.sleep(UNKNOWN_S)
        await app.disarm(metadata_rule)

    await run_together(app.transact("b-1"), learn())
    for value in ("c-1", "d-1"):
        await app.goes_on(value=value)


@situation("closes-after-timeout", "middle", "A commit has run out of time, as a record was not"
           " acknowledged, and the producer is closed: does that end?",
           about=("KAFKA-16217",))  # fmt: skip
async def closes_after_timeout(app: Application) -> None:
    """An application that gives up must be able to leave. The Java client's ``close`` returns."""
    await app.must_init(patience_ms=CLOSES_S * 1_500)
    drop_rule = await app.arm(point="client.request", api="Produce", action="drop")
    transaction = app.ledger.begin("a-1")
    await app.must("begin", producer="p")
    await app.send("a-1", waits=False)
    answer = await app.do("commit", producer="p")
    transaction.reported_end = ReportedEnd.UNKNOWN if answer.error else ReportedEnd.COMMITTED
    await app.disarm(drop_rule)
    await asyncio.sleep(0.5)
    async with app.within(CLOSES_S, "closing the producer"):
        await app.close("p")
    await app.goes_on()


@situation("marker-without-records", "readers", "A producer has aborted transactions without a"
           " record, and one with a record: does the reader get what is behind them?",
           about=("aiokafka #781", "librdkafka 1.7.0"))  # fmt: skip
async def marker_without_records(app: Application) -> None:
    """Such a marker belongs to a transaction that is in no list of aborted ones. The Java client
    steps over it.
    """
    neighbour = await app.neighbour()
    for values in ((), ("lost-1",), ()):
        await neighbour.transact(TopicPartition("t", 1), values, is_commit=False)
    await app.must_init()
    await app.must_transact("a-1")
    await app.consumer()
    app.expect(await app.poll(1), ["a-1"], "the reader gets")


@situation("aborted-and-compressed", "readers", "Aborted records are compressed: are they kept from"
           " the reader?", about=("librdkafka #3020",))  # fmt: skip
async def aborted_and_compressed(app: Application) -> None:
    """The list of aborted transactions holds for batches, whatever their codec (KIP-98). These have
    gzip, which every library has.
    """
    neighbour = await app.neighbour()
    for index, is_commit in enumerate((False, True, False)):
        values = (f"x{index}-1", f"y{index}-1")
        if is_commit:
            app.ledger.begin(*values).reported_end = ReportedEnd.COMMITTED
        await neighbour.transact(TopicPartition("t", 1), values, is_commit=is_commit, codec=GZIP)
    await app.consumer()
    app.expect(await app.poll(2), ["x1-1", "y1-1"], "the reader gets")


@situation("both-coordinators-die", "groups", "One broker coordinates the transactions and the"
           " group. It dies and stays dead: are both new ones found?", groups=("g",),
           about=("aiokafka #1151",))  # fmt: skip
async def both_die(app: Application) -> None:
    """The Java client sends FindCoordinator for each of the two when the connection is lost."""
    await app.must_init()
    broker_of_both = await app.kafka.leaders.coordinator_of(TRANSACTIONAL_ID)
    await _coordinate(app, broker_of_both)
    await app.must_transact("a-1", group="g", position=3)
    app.steps.append(f"broker {broker_of_both} dies, which coordinates both")
    await app.kill(broker_of_both)
    await asyncio.sleep(1)
    await app.must_transact("b-2", group="g", position=4)


@situation("group-coordinator-breaks-at-first", "groups", "The first connections to the group's"
           " coordinator break as soon as they are open: does the library connect again?",
           groups=("g",), about=("librdkafka #3844",))  # fmt: skip
async def breaks_at_first(app: Application) -> None:
    """The Java client connects again. This does not apply where the library is connected with that
    broker already.
    """
    await app.must_init()
    broker = await _broker_without_role(app)
    await app.arm(point="connection.open", broker=broker, limit=3, action="disconnect")
    await app.must_transact("a-1", group="g", position=3)


@situation("group-coordinator-unreachable", "groups", "The group's coordinator can't be reached:"
           " does the application get an answer?", groups=("g",),
           about=("librdkafka #5456",))  # fmt: skip
async def unreachable(app: Application) -> None:
    """The Java client throws TimeoutException after ``max.block.ms``, here four seconds."""
    await app.must_init(patience_ms=SHORT_CALL_TIMEOUT_MS)
    broker = await _broker_without_role(app)
    silence_rules = await _cut_off_broker(app, broker)
    await app.transact("a-1", group="g", position=3)
    for fault_rule in silence_rules:
        await app.disarm(fault_rule)
    await app.goes_on()


@situation("group-coordinator-unreachable-then-moves", "groups", "The group's coordinator can't be"
           " reached, and while the library tries, another broker takes over: is it found?",
           groups=("g",), about=("librdkafka #3847",))  # fmt: skip
async def unreachable_then_moves(app: Application) -> None:
    """The broker is known to be alive, so metadata does not help. If the Java client can't connect,
    it sends FindCoordinator again.
    """
    await app.must_init()
    broker = await _broker_without_role(app)
    transaction = await app.open("a-1")
    transaction.group, transaction.position = "g", 3
    silence_rules = await _cut_off_broker(app, broker)

    async def move() -> None:
        await asyncio.sleep(UNREACHABLE_S)
        app.steps.append("the group gets another coordinator")
        await _coordinate(app, await app.kafka.leaders.coordinator_of(TRANSACTIONAL_ID))

    async with app.within(UNREACHABLE_S + FOUND_S, "finding the new coordinator"):
        answer, _ = await run_together(app.send_offsets("g", 3), move())
    for fault_rule in silence_rules:
        await app.disarm(fault_rule)
    app.expect_done(answer, "sending the positions")
    await app.must_end(transaction)


@situation("coordinator-moves-before-offsets", "groups", "The coordinator of the transaction moves"
           " before the positions are sent: is the new one found?", groups=("g",),
           about=("librdkafka #3571",))  # fmt: skip
async def moves_before_offsets(app: Application) -> None:
    """AddOffsetsToTxn, or the commit, is answered NOT_COORDINATOR. The Java client sends
    FindCoordinator, and the request again.
    """
    await app.must_init()
    transaction = await app.open("a-1")
    transaction.group, transaction.position = "g", 3
    await app.move_coordinator()
    async with app.within(FOUND_S, "finding the new coordinator"):
        app.expect_done(await app.send_offsets("g", 3), "sending the positions")
        await app.must_end(transaction)


async def _cut_off_broker(app: Application, broker_id: int) -> list[AsyncFault]:
    """Makes a running broker unreachable, on new and on open connections."""
    rule_fields: dict[str, Any] = {"broker": broker_id, "action": "drop", "must_strike": False}
    return [
        await app.arm(point=point, **rule_fields) for point in ("connection.open", "client.request")
    ]


async def _coordinate(app: Application, broker_id: int) -> None:
    """Makes a broker the coordinator of the group."""
    home_partition = await app.kafka.topics.of_group("g")
    if await app.kafka.leaders.of(home_partition.topic, home_partition.partition) != broker_id:
        await app.kafka.leaders.move(home_partition.topic, home_partition.partition, to=broker_id)


async def _broker_without_role(app: Application) -> int:
    """Makes a broker the coordinator of the group that the producer needs for nothing else."""
    busy_brokers = {
        await app.kafka.leaders.of("t", 1),
        await app.kafka.leaders.coordinator_of(TRANSACTIONAL_ID),
    }
    broker = min(set(await app.kafka.brokers.states()) - busy_brokers)
    await _coordinate(app, broker)
    return broker


SITUATIONS: Final[tuple[Situation, ...]] = (
    fenced_slowly,
    while_recovering,
    raise_epoch_of_open_transaction,
    init_slow,
    abort_behind_slow_markers,
    commit_nothing,
    too_large,
    never_added,
    lost_then_refused,
    topic_unknown,
    closes_after_timeout,
    marker_without_records,
    aborted_and_compressed,
    both_die,
    breaks_at_first,
    unreachable,
    unreachable_then_moves,
    moves_before_offsets,
)
