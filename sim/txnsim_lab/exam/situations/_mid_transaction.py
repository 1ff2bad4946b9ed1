"""The middle of a transaction: requests before its end that are lost, refused or answered twice."""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Final

from txnsim.releases import REFERENCE
from txnsim.types import PRODUCER_EPOCH_MAX, BrokerId, ProducerEpoch, TransactionalId
from txnsim_lab.exam._application import TOPIC_NAME, TRANSACTIONAL_ID, Application
from txnsim_lab.exam._ledger import LedgerEntry, ReportedEnd
from txnsim_lab.exam.results import MissError
from txnsim_lab.exam.situation import ALL_LEVELS, PlaySituation, Situation, situation
from txnsim_lab.exam.situations._error_codes import LEVELS_WITH_ADDITIONS, POSITION_REQUESTS
from txnsim_lab.exam.targets import create_topic

_DISCONNECT_AT_REQUEST: Final[dict[str, Any]] = {"point": "client.request", "action": "disconnect"}
_DROP_REQUEST: Final[dict[str, Any]] = {"point": "client.request", "action": "drop"}
_DROP_RESPONSE: Final[dict[str, Any]] = {"point": "client.response", "action": "drop"}
_DISCONNECT_AT_RESPONSE: Final[dict[str, Any]] = {
    "point": "client.response",
    "action": "disconnect",
}
_FAULTS: Final = (
    ("lost", "is lost", _DROP_REQUEST),
    ("answer-lost", "takes effect, and its answer is lost", _DROP_RESPONSE),
    ("connection-breaks-before", "is not read, as its connection breaks", _DISCONNECT_AT_REQUEST),
    ("connection-breaks-after", "takes effect, and its connection breaks", _DISCONNECT_AT_RESPONSE),
)
_BROKEN_REQUESTS: Final = (
    ("InitProducerId", ALL_LEVELS),
    ("AddPartitionsToTxn", LEVELS_WITH_ADDITIONS),
    ("AddOffsetsToTxn", LEVELS_WITH_ADDITIONS),
    ("TxnOffsetCommit", ALL_LEVELS),
    ("Produce", ALL_LEVELS),
)


def _break_request(api: str, fault_fields: dict[str, Any]) -> PlaySituation:
    """Plays a transaction with records and positions; one request meets a fault that the library
    must handle by itself.
    """

    async def play(app: Application) -> None:
        """The Java client sends a request again where its answer does not come, is lost, or its
        connection breaks. Epochs and sequence numbers make it count once, and the application does
        not learn of it.
        """
        fault_rule = await app.arm(api=api, limit=1, **fault_fields)
        await app.must_init()
        await app.must_transact(
            "a-1", "b-2", group="g", position=3, needs_positions=api in POSITION_REQUESTS
        )
        await app.disarm(fault_rule)
        await app.goes_on()

    return play


@situation("produce-lost-in-flight", "middle", "The first of some records that are on their way to"
           " one partition is lost, so the next ones have a gap in front of them: is each in the"
           " log once, in order?", is_core=True)  # fmt: skip
async def lost_in_flight(app: Application) -> None:
    """A batch that arrives before an earlier one is answered OUT_OF_ORDER_SEQUENCE_NUMBER. The Java
    client sends all of them again, in order (KIP-98).
    """
    await app.must_init()
    await app.must_transact("a-1")
    fault = await app.arm(api="Produce", limit=1, **_DISCONNECT_AT_REQUEST)
    values = ("b-1", "c-1", "d-1", "e-1", "f-1")
    await app.must_transact(*values, waits=False)
    await app.disarm(fault)
    values_in_log = [
        (record.value or b"").decode() for record in await app.records() if record.partition == 1
    ]
    app.expect(values_in_log, ["a-1", *values], "the log has")
    await app.goes_on()


@situation("leader-moves", "middle", "A partition gets another leader between two records.")
async def leader_moves(app: Application) -> None:
    """The old leader answers NOT_LEADER_OR_FOLLOWER. The Java client asks for metadata, and sends
    the record to the new one.
    """
    await app.must_init()
    transaction = await app.open("a-1")
    await app.move_leader(1)
    app.expect_done(await app.send("b-1"), "sending b-1 behind the move")
    transaction.values = ("a-1", "b-1")
    await app.must_end(transaction)
    await app.goes_on()


@situation("init-while-aborting", "middle", "The transaction of the last run is still being aborted"
           " when the new run begins: does it wait?")  # fmt: skip
async def init_while_aborting(app: Application) -> None:
    """InitProducerId is answered CONCURRENT_TRANSACTIONS until the abort is done. The Java client
    asks again.
    """
    await app.must_init("old")
    await app.open("lost-1", producer="old")
    delay = {"do": "delay", "delay_ms": 1_000}
    await app.arm(point="peer.request", api="WriteTxnMarkers", limit=1, action=delay)
    await app.must_init("new")
    await app.goes_on("new")


@situation("epoch-runs-out", "middle", "The producer's epoch reaches its end within some"
           " transactions: does it go on with a new producer id?", is_core=True)  # fmt: skip
async def epoch_runs_out(app: Application) -> None:
    """Epochs end at 32,767. Transactions v2 raise the epoch with each transaction, so a long-lived
    producer gets its new id from EndTxn; in version 1 only a new session gets one. The Java client
    uses the new id.
    """
    await app.must_init("old")
    await app.must_transact("a-1", producer="old")
    await app.close("old")
    coordinator_id = BrokerId(await app.kafka.leaders.coordinator_of(TRANSACTIONAL_ID))
    high_epoch = ProducerEpoch(PRODUCER_EPOCH_MAX - 3)
    app.steps.append(f"the epoch of the id is {high_epoch}, as after very many transactions")
    await app.kafka.cluster.brokers[coordinator_id].coordinator.age(
        TransactionalId(TRANSACTIONAL_ID), high_epoch
    )
    await app.must_init()
    for value in ("b-1", "c-2", "d-1", "e-2", "f-1"):
        await app.must_transact(value)


@situation("level-raised", "middle", "transaction.version is raised while the producer runs: does"
           " it go on, its group's positions too?", levels=(0, 1), groups=("g",),
           is_core=True)  # fmt: skip
async def level_raised(app: Application) -> None:
    """The Java client takes up the newer protocol between two transactions (KIP-890)."""
    await app.must_init()
    await app.must_transact("a-1", group="g", position=1)
    transaction = await app.open("b-2")
    app.steps.append("transaction.version is raised to 2")
    await (await app.kafka.rebuilt.admin()).update_features({"transaction.version": 2})
    await app.must_end(transaction)
    for position, value in enumerate(("c-1", "d-2", "e-1"), 2):
        await app.must_transact(value, group="g", position=position)
    await app.goes_on()


@situation("rolling-upgrade", "middle", "The brokers are upgraded from 3.9, one after the other,"
           " and transaction.version is raised, while the producer runs.", levels=(0,),
           groups=("g",), begins_as="3.9", is_core=True)  # fmt: skip
async def rolling_upgrade(app: Application) -> None:
    """Each broker is stopped in order, and its leaders and coordinators move. The Java client
    follows them, and takes up newer versions between two transactions.
    """
    await app.must_init()
    await app.must_transact("a-1", group="g", position=1)
    for broker_number in sorted(await app.kafka.brokers.states()):
        transaction = await app.open(f"b{broker_number}-1", f"b{broker_number}-2")
        app.steps.append(f"broker {broker_number} is stopped, and started as {REFERENCE.name}")
        await app.kafka.brokers.stop(broker_number)
        await app.kafka.brokers.start(broker_number, as_version=REFERENCE.name)
        await app.must_end(transaction)
    admin = await app.kafka.rebuilt.admin()
    app.steps.append("metadata.version and transaction.version are raised")
    newest_level = REFERENCE.features["metadata.version"].max_level
    await admin.update_features({"metadata.version": newest_level, "transaction.version": 2})
    for broker_number, value in enumerate(("c-1", "d-2"), 2):
        await app.must_transact(value, group="g", position=broker_number)
    await app.goes_on()


@situation("coordinator-dies-before-record", "middle", "The coordinator's broker dies between two"
           " transactions, and stays dead: is the new coordinator found?")  # fmt: skip
async def coordinator_dies(app: Application) -> None:
    """The coordinator is known from the transaction before. The Java client sends FindCoordinator
    when its connection is lost.
    """
    await app.must_init()
    await app.must_transact("a-1")
    await app.kill_coordinator()
    await app.must_transact("b-1", "b-2")


@situation("second-partition-refused", "middle", "A record is in, and AddPartitionsToTxn is refused"
           " for the next partition: does an abort end what is open?", levels=LEVELS_WITH_ADDITIONS,
           about=("franz-go 07525c50",))  # fmt: skip
async def second_partition_refused(app: Application) -> None:
    """The Java client sends EndTxn where a partition was added before. The refused partition is in
    one request with a further record of the one that was added.
    """
    leaders = app.kafka.leaders
    leader = await leaders.of(TOPIC_NAME, 1)
    if await leaders.of(TOPIC_NAME, 0) != leader:
        await leaders.move(TOPIC_NAME, 0, to=leader)
    await app.must_init()
    transaction = await app.open("a-1")
    refused = {"do": "error", "error": "TOPIC_AUTHORIZATION_FAILED"}
    await app.arm(point="client.request", api="AddPartitionsToTxn", limit=1, action=refused)
    transaction.values = ("a-1", "b-1", "b-2")
    for value in transaction.values[1:]:
        await app.send(value, waits=False)
    await app.end(transaction)
    await _expect_aborted(app, transaction)


@situation("every-record-refused", "middle", "The only record is too large for its topic, and its"
           " partition is in the transaction already: does an abort end it?",
           about=("franz-go de5af46a",))  # fmt: skip
async def every_record_refused(app: Application) -> None:
    """At level 2 the leader adds the partition before it checks the batch (KIP-890). So an abort
    must send EndTxn although no record was accepted.
    """
    await create_topic(app.target, app.name("narrow"), configs={"max.message.bytes": "200"})
    await app.must_init()
    transaction = app.ledger.begin()
    await app.must("begin", producer="p")
    value = "".join(sha256(bytes([index])).hexdigest() for index in range(64))  # hard to compress
    send_answer = await app.do("send", producer="p", topic=app.name("narrow"), partition=0,
                               value=value, wait=True)  # fmt: skip
    if send_answer.error is None:
        raise MissError("the library says that it has sent a record that was refused")
    await app.give_up(transaction, "p", send_answer.error)
    await _expect_aborted(app, transaction)


async def _expect_aborted(app: Application, transaction: LedgerEntry) -> None:
    """Checks that a transaction which a live producer reports as aborted has ended in the log."""
    if "p" not in app.dead_names:
        app.expect_end(transaction, ReportedEnd.ABORTED)
        await app.expect_end_at_coordinator()
    await app.goes_on()


SITUATIONS: Final[tuple[Situation, ...]] = (
    *(
        situation(
            f"{api}-{name}".lower(), "middle", f"{api} {what}.", levels=levels, groups=("g",),
            is_core=name == "answer-lost",
        )(_break_request(api, fault))
        for api, levels in _BROKEN_REQUESTS
        for name, what, fault in _FAULTS
    ),
    situation("produce-answered-twice", "middle", "A record arrives twice.", groups=("g",))(
        _break_request("Produce", {"point": "client.request", "action": "duplicate"})),
    lost_in_flight,
    leader_moves,
    init_while_aborting,
    epoch_runs_out,
    level_raised,
    rolling_upgrade,
    coordinator_dies,
    second_partition_refused,
    every_record_refused,
)  # fmt: skip
