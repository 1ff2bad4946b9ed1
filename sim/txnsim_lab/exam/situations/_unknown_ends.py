"""The end is unknown: the request that ends a transaction is lost, late or refused."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from txnsim_lab.exam._application import INPUT_TOPIC, TRANSACTIONAL_ID, Application, run_together
from txnsim_lab.exam._ledger import ReportedEnd
from txnsim_lab.exam.results import MissError
from txnsim_lab.exam.situation import PlaySituation, Situation, situation


def _play_end(end_word: str, *, must_report: bool = True, **fault_fields: Any) -> PlaySituation:
    """Plays a transaction whose EndTxn meets a fault.

    Args:
        end_word: The end, commit or abort.
        must_report: Whether the library must report this end; otherwise any truthful report passes.
        fault_fields: The fault rule.
    """

    async def play(app: Application) -> None:
        await app.must_init()
        fault_rule = await app.arm(**{"api": "EndTxn", "limit": 1, **fault_fields})
        await (app.must_transact if must_report else app.transact)("a-1", "b-2", end=end_word)
        await app.disarm(fault_rule)
        await app.goes_on()

    return play


_REPEATED: Final = (
    "EndTxn may be repeated with the same epoch, and the coordinator answers it as the first one."
    " The Java client repeats it until max.block.ms, and the call succeeds."
)
_RETRIABLE: Final = (
    "Kafka's protocol calls this error of EndTxn retriable. The Java client's EndTxnHandler sends"
    " EndTxn again, and the application does not learn of it."
)
_REFUSAL: Final = (
    "EndTxn has not taken effect. The Java client's EndTxnHandler fails the call, and its error"
    " says whether the application aborts or takes a new producer. A library that obeys must go on"
    ", and nothing that was refused may be read."
)
_ASKED: Final[dict[str, Any]] = {"point": "client.request"}
_ANSWERED: Final[dict[str, Any]] = {"point": "client.response"}

_ASKED_AGAIN: Final = (
    "NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS",
    "CONCURRENT_TRANSACTIONS",
)  # fmt: skip
_REFUSED: Final = (
    "UNKNOWN_SERVER_ERROR", "INVALID_TXN_STATE", "INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED",
    "INVALID_PRODUCER_ID_MAPPING", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
)  # fmt: skip

_FAULT_TABLE: Final = (
    ("commit-lost", "The commit is lost on its way: is it sent again?",
     _play_end("commit", **_ASKED, action="drop"), _REPEATED),
    ("commit-answer-lost", "The answer to the commit is lost: is the commit asked for again?",
     _play_end("commit", **_ANSWERED, action="drop"), _REPEATED),
    ("commit-connection-breaks-before", "The connection breaks before the commit is read.",
     _play_end("commit", **_ASKED, action="disconnect"), _REPEATED),
    ("commit-connection-breaks-after", "The connection breaks when the commit is done.",
     _play_end("commit", **_ANSWERED, action="disconnect"), _REPEATED),
    ("abort-lost", "The abort is lost on its way.",
     _play_end("abort", **_ASKED, action="drop"), _REPEATED),
    ("abort-answer-lost", "The answer to the abort is lost.",
     _play_end("abort", **_ANSWERED, action="drop"), _REPEATED),
    ("abort-connection-breaks-before", "The connection breaks before the abort is read.",
     _play_end("abort", **_ASKED, action="disconnect"), _REPEATED),
    ("abort-connection-breaks-after", "The connection breaks when the abort is done.",
     _play_end("abort", **_ANSWERED, action="disconnect"), _REPEATED),
    *((f"commit-answered-{error.lower().replace('_', '-')}",
       f"The commit is answered {error}, three times, and then done.",
       _play_end("commit", **_ASKED, limit=3, action={"do": "error", "error": error}), _RETRIABLE)
      for error in _ASKED_AGAIN),
    *((f"abort-answered-{error.lower().replace('_', '-')}",
       f"The abort is answered {error}, three times, and then done.",
       _play_end("abort", **_ASKED, limit=3, action={"do": "error", "error": error}), _RETRIABLE)
      for error in _ASKED_AGAIN),
    *((f"commit-refused-{error.lower().replace('_', '-')}",
       f"The commit is refused with {error}: is the application told that it is not committed?",
       _play_end("commit", must_report=False, **_ASKED, limit=100,
               action={"do": "error", "error": error}),
       _REFUSAL)
      for error in _REFUSED),
    *((f"abort-refused-{error.lower().replace('_', '-')}",
       f"The abort is refused with {error}: how does the application go on?",
       _play_end("abort", must_report=False, **_ASKED, action={"do": "error", "error": error}),
       _REFUSAL)
      for error in _REFUSED),
)  # fmt: skip
_CORE_NAMES: Final = (
    "commit-lost", "commit-answer-lost", "commit-connection-breaks-after", "abort-answer-lost",
    "commit-answered-not-coordinator", "commit-answered-concurrent-transactions",
    "commit-refused-unknown-server-error", "commit-refused-producer-fenced",
)  # fmt: skip
COORDINATOR_AWAY_MS: Final = 2_000
COMPLETING_MS: Final = 3_000
WAITING_S: Final = 2.6
"""Seconds for which a record waits for the markers before its partition loses its leader: a library
with a growing backoff then asks for the partition less often than it retries the end.
"""
LEADERLESS_S: Final = 1.5
SHORT_CALL_TIMEOUT_MS: Final = 4_000
"""Timeout of the application's calls if a call is to time out."""
_KNOWN_BUGS: Final = {"commit-refused-unknown-server-error": ("franz-go 42b3d833",)}


@situation("markers-slow", "end unknown", "The markers of a commit take a second, and the next"
           " transaction begins at once: does it wait?",
           about=("kafkajs #1068", "Sarama #2859"), is_core=True)  # fmt: skip
async def markers_slow(app: Application) -> None:
    """The coordinator answers CONCURRENT_TRANSACTIONS until the markers are written. The Java
    client asks again, and the application does not learn of it.
    """
    await app.must_init()
    delay = {"do": "delay", "delay_ms": 1_000}
    await app.arm(point="peer.request", api="WriteTxnMarkers", action=delay)
    for value in ("a-1", "b-2", "c-3"):
        await app.must_transact(value)


@situation("abort-while-completing", "end unknown", "The markers of a commit take a second, and"
           " the next transaction is aborted at once: is it aborted, and does the producer go on?",
           about=("franz-go #1534",))  # fmt: skip
async def abort_while_completing(app: Application) -> None:
    """The coordinator answers CONCURRENT_TRANSACTIONS until the markers are written. The Java
    client asks again, and the application does not learn of it.
    """
    await app.must_init()
    delay = {"do": "delay", "delay_ms": 1_000}
    await app.arm(point="peer.request", api="WriteTxnMarkers", action=delay)
    for lost_value, value in (("lost-1", "a-1"), ("lost-3", "b-1")):
        await app.must_transact(value)
        transaction = app.ledger.begin(lost_value)
        await app.must("begin", producer="p")
        await app.send(lost_value, waits=False)
        await app.must_end(transaction, "p", "abort")
    await app.goes_on()


@situation("abort-while-completing-without-leader", "end unknown", "The markers of a commit take"
           " three seconds. The next transaction waits for them; then its partition has no leader,"
           " and it is aborted: does the producer go on?", levels=(0, 1),
           about=("franz-go #1534",))  # fmt: skip
async def abort_without_leader(app: Application) -> None:
    """AddPartitionsToTxn is answered CONCURRENT_TRANSACTIONS, and the record can't be sent. The
    Java client sends no EndTxn before AddPartitionsToTxn is done: the coordinator refuses the end
    of a transaction that has no partition with INVALID_TXN_STATE.
    """
    await app.must_init()
    delay_rule = await app.arm(point="peer.request", api="WriteTxnMarkers",
                               action={"do": "delay", "delay_ms": COMPLETING_MS})  # fmt: skip
    await app.must_transact("a-1")
    transaction = app.ledger.begin("lost-1", "lost-2")
    await app.must("begin", producer="p")
    await app.send("lost-1", waits=False)
    await asyncio.sleep(WAITING_S)
    error_action = {"do": "error", "error": "LEADER_NOT_AVAILABLE"}
    metadata_rule = await app.arm(**_ASKED, api="Metadata", action=error_action, must_strike=False)

    async def comes_back() -> None:
        await asyncio.sleep(LEADERLESS_S)
        await app.disarm(metadata_rule)

    async def abort_with_slow_markers() -> None:
        await app.do("send", producer="p", topic=app.name(INPUT_TOPIC), partition=0, value="lost-2",
                     wait=False)  # fmt: skip
        app.expect_done(await app.do("abort", producer="p"), "the abort")
        transaction.reported_end = ReportedEnd.ABORTED

    await run_together(abort_with_slow_markers(), comes_back())
    await app.disarm(delay_rule)
    await app.goes_on()


@situation("markers-slow-then-offsets", "end unknown", "The markers of a commit take a second, and"
           " the next transaction begins with positions.", groups=("g",),
           about=("kafkajs #430", "librdkafka #3221"), is_core=True)  # fmt: skip
async def markers_slow_offsets(app: Application) -> None:
    """AddOffsetsToTxn is answered CONCURRENT_TRANSACTIONS until the markers are written. The Java
    client asks again, and the application does not learn of it.
    """
    await app.must_init()
    await app.must_transact("a-1", group="g", position=1)
    delay = {"do": "delay", "delay_ms": 1_000}
    await app.arm(point="peer.request", api="WriteTxnMarkers", action=delay)
    await app.must_transact("b-2", group="g", position=2)
    transaction = app.ledger.begin("c-3", group="g", position=3)
    await app.must("begin", producer="p")
    app.expect_done(await app.send_offsets("g", 3), "sending the positions")
    app.expect_done(await app.send("c-3"), "sending c-3 behind the positions")
    await app.must_end(transaction)


@situation("commit-late", "end unknown", "The commit is held for longer than the library waits;"
           " the application obeys and goes on; then the commit arrives: does it end a"
           " transaction that is not its own?", about=("librdkafka #5423",),
           needs_version_2=True, is_core=True)  # fmt: skip
async def commit_late(app: Application) -> None:
    """A late EndTxn has the epoch of its time. In version 1 the next transaction has the same
    epoch, and the Java client repeats a commit in the same way: this is a hole in the protocol. In
    version 2 each transaction has its own epoch (KIP-890), and the late EndTxn is refused.
    """
    await app.must_init()
    hold_rule = await app.arm(point="client.request", api="EndTxn", limit=1, action="hold")
    await app.transact("a-1")
    if "p" in app.dead_names:
        await app.must_init("p")
    following_transaction = await app.open("b-2")
    await app.release(hold_rule)
    await asyncio.sleep(0.5)
    records = await app.records(settle_ms=0)
    early_records = [
        record for record in records if record.value == b"b-2" and record.fate == "committed"
    ]
    if early_records:
        raise MissError("the late commit of the first transaction has committed the second one")
    await app.end(following_transaction)
    await app.goes_on()


@situation("abort-behind-unsent", "end unknown", "Records are handed over and the transaction is"
           " aborted at once: does the abort wait for what is on its way?",
           about=("librdkafka #4849",), is_core=True)  # fmt: skip
async def abort_behind_unsent(app: Application) -> None:
    """EndTxn must not overtake AddPartitionsToTxn and Produce. The Java client drops unsent
    requests, and sends EndTxn after those that are in flight.
    """
    await app.must_init()
    for index in range(8):
        await app.must_transact(f"a{index}-1", f"b{index}-2", end="abort", waits=False)
    await app.goes_on()


@situation("commit-connection-breaks-twice", "end unknown", "The connection breaks before the"
           " commit is read, and again when it is done.")  # fmt: skip
async def breaks_twice(app: Application) -> None:
    """Between the two the commit has taken effect, and no answer came. The Java client repeats
    EndTxn, and the coordinator answers it as the first one.
    """
    await app.must_init()
    await app.arm(api="EndTxn", limit=1, **_ASKED, action="disconnect")
    await app.arm(api="EndTxn", limit=1, **_ANSWERED, action="disconnect")
    await app.must_transact("a-1", "b-2")
    await app.goes_on()


def _while_coordinator(disturb: Callable[[Application], Awaitable[None]]) -> PlaySituation:
    """Plays a transaction; disturbs its coordinator before the commit."""

    async def play(app: Application) -> None:
        """The Java client asks again after NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE and
        COORDINATOR_LOAD_IN_PROGRESS. It sends FindCoordinator where its connection is lost or a
        request has timed out. The commit succeeds.
        """
        await app.must_init()
        transaction = await app.open("a-1", "b-2")
        await disturb(app)
        await app.must_end(transaction)
        await app.goes_on()

    return play


async def _resign_leader(app: Application) -> None:
    home_partition = await app.target.home_of_id(app.name(TRANSACTIONAL_ID))
    resign_action = {
        "do": "resign-leader",
        "topic": home_partition.topic,
        "partition": home_partition.partition,
    }
    await app.arm(**_ASKED, api="EndTxn", limit=1, action=resign_action)


async def _loads(app: Application) -> None:
    await app.arm(
        point="coordinator.load", limit=1, action={"do": "delay", "delay_ms": COORDINATOR_AWAY_MS}
    )
    await app.move_coordinator()


async def _cut_off_coordinator(app: Application) -> None:
    broker = await app.kafka.leaders.coordinator_of(TRANSACTIONAL_ID)
    app.steps.append(f"all that clients send to broker {broker}, the coordinator, is lost")
    await app.kafka.brokers.isolate(broker, from_clients=True)


_COORDINATOR_ROWS: Final = (
    situation("commit-while-coordinator-moves", "end unknown", "The coordinator's partition gets"
              " another leader when the commit arrives.")(
                  _while_coordinator(Application.move_coordinator)),
    situation("commit-while-coordinator-dies", "end unknown", "The coordinator's broker dies before"
              " the commit, and stays dead: is the new coordinator found?",
              about=("aiokafka #1134", "aiokafka #1145"), is_core=True)(
                  _while_coordinator(Application.kill_coordinator)),
    situation("commit-while-coordinator-resigns", "end unknown", "The coordinator resigns when the"
              " commit arrives, is elected again, and loads its log.")(
                  _while_coordinator(_resign_leader)),
    situation("commit-while-coordinator-loads", "end unknown", "The coordinator has moved, and its"
              " new broker takes two seconds to load its log.")(_while_coordinator(_loads)),
    situation("commit-while-coordinator-is-cut-off", "end unknown", "All that goes to the"
              " coordinator's broker is lost without a word, and another takes over: is it found?",
              about=("aiokafka #1145",))(_while_coordinator(_cut_off_coordinator)),
)  # fmt: skip


@situation("commit-while-coordinator-is-gone", "end unknown", "The coordinator is gone, and no"
           " other takes its place: does the application get an answer, and go on when one is"
           " there again?")  # fmt: skip
async def coordinator_gone(app: Application) -> None:
    """The Java client throws TimeoutException after ``max.block.ms``, here four seconds. The commit
    may be called again. No library may wait for ever.
    """
    await app.must_init(patience_ms=SHORT_CALL_TIMEOUT_MS)
    transaction = await app.open("a-1", "b-2")
    drop_rule = await app.arm(**_ASKED, api="EndTxn", action="drop")
    error_action = {"do": "error", "error": "COORDINATOR_NOT_AVAILABLE"}
    lookup_rule = await app.arm(
        **_ASKED, api="FindCoordinator", action=error_action, must_strike=False
    )
    answer = await app.do("commit", producer="p")
    transaction.reported_end = (
        ReportedEnd.COMMITTED if answer.error is None else ReportedEnd.UNKNOWN
    )
    await app.disarm(drop_rule)
    await app.disarm(lookup_rule)
    if answer.error is not None and answer.error.retriable:
        await app.end(transaction)
    elif answer.error is not None:
        await app.give_up(transaction, "p", answer.error)
    await app.goes_on()


def _call_after_end(first_end: str, second_end: str) -> PlaySituation:
    """Calls commit or abort after the end of the transaction."""

    async def play(app: Application) -> None:
        """The Java client throws IllegalStateException, and the producer stays usable. A library
        may also ignore the call.
        """
        await app.must_init()
        await app.must_transact("a-1", "b-2", end=first_end)
        answer = await app.do(second_end, producer="p")
        if answer.error is None:
            app.names_of_choices.append(
                f"{second_end} after {first_end} is no error; in the Java client it is"
            )
        elif answer.error.fatal:
            await app.close("p")
        await app.goes_on()

    return play


@situation("abort-after-unknown-commit", "end unknown", "The commit is held for longer than the"
           " library waits, and the application aborts all the same: is it refused, or does the"
           " abort hold?", is_core=True)  # fmt: skip
async def abort_after_unknown(app: Application) -> None:
    """In the Java client a commit that has timed out has to be called again, and an abort is an
    IllegalStateException. A library that lets the application abort has to be right about it.
    """
    await app.must_init()
    hold_rule = await app.arm(point="client.request", api="EndTxn", limit=1, action="hold")
    transaction = await app.open("a-1", "b-2")
    transaction.reported_end = ReportedEnd.UNKNOWN
    answer = await app.do("commit", producer="p")
    if answer.error is None:
        transaction.reported_end = (
            ReportedEnd.COMMITTED
        )  # it was sent again in time, so its end is known
    elif (await app.do("abort", producer="p")).error is None:
        transaction.reported_end = ReportedEnd.ABORTED
    await app.release(hold_rule)
    await asyncio.sleep(0.5)
    if transaction.reported_end is ReportedEnd.UNKNOWN:
        await app.end(transaction)
    await app.goes_on()


@situation("closes-with-unknown-end", "end unknown", "The commit is lost until the application"
           " gives up. Then the fault is over; it closes its producer, and does not come back: do"
           " readers get on?", about=("FLINK-39218",))  # fmt: skip
async def closes_with_unknown_end(app: Application) -> None:
    """``close`` of the Java client ends the transaction, so the commit is sent again. A transaction
    that stays open blocks readers until it times out, and is aborted then.
    """
    await app.must_init(patience_ms=SHORT_CALL_TIMEOUT_MS)
    transaction = await app.open("a-1")
    drop_rule = await app.arm(**_ASKED, api="EndTxn", action="drop")
    transaction.reported_end = ReportedEnd.UNKNOWN
    await app.do("commit", producer="p")
    await app.disarm(drop_rule)
    await app.close("p")
    await app.gets_free(1)


SITUATIONS: Final[tuple[Situation, ...]] = (
    *(
        situation(
            name, "end unknown", asks, yardstick=rule, about=_KNOWN_BUGS.get(name, ()),
            is_core=name in _CORE_NAMES,
        )(play)
        for name, asks, play, rule in _FAULT_TABLE
    ),
    *(
        situation(f"{later}-after-{initial}", "end unknown",
                  f"A transaction has ended by {initial}, and the application calls {later}.")(
                      _call_after_end(initial, later))
        for initial in ("commit", "abort")
        for later in ("commit", "abort")
    ),
    abort_while_completing,
    abort_without_leader,
    markers_slow,
    markers_slow_offsets,
    commit_late,
    *_COORDINATOR_ROWS,
    coordinator_gone,
    abort_behind_unsent,
    breaks_twice,
    abort_after_unknown,
    closes_with_unknown_end,
)  # fmt: skip
