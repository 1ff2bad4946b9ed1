"""Fenced producers: the application must learn that it is fenced, and the new producer must
work.
"""

from __future__ import annotations

import asyncio
from typing import Final

from txnsim.client.producer import Producer
from txnsim_lab.exam._application import (
    CLIENT_ID,
    REQUEST_TIMEOUT_MS,
    TOPIC_NAME,
    TRANSACTIONAL_ID,
    Application,
    run_together,
)
from txnsim_lab.exam._ledger import ReportedEnd
from txnsim_lab.exam.results import MissError, NotAskedError
from txnsim_lab.exam.situation import Situation, situation

LOSS_PATIENCE_MS: Final = 4_000
"""Time after which a library repeats a request that has no answer."""


@situation("fenced-by-newer", "fenced", "A newer producer of the same id has come: is the older one"
           " refused, and is it told that it is dead?", is_core=True)  # fmt: skip
async def by_newer(app: Application) -> None:
    """InitProducerId raises the producer epoch, and the coordinator refuses what has an older one
    (KIP-98). The Java client throws ProducerFencedException; such a producer can only be closed.
    """
    await app.must_init("old")
    transaction = await app.open("lost-1", producer="old")
    await app.must_init("new")
    await app.must_transact("kept-1", producer="new")
    refused_answer = await app.do("commit", producer="old")
    if refused_answer.error is None:
        transaction.reported_end = ReportedEnd.COMMITTED
        raise MissError("the library told the older producer that it has committed")
    if refused_answer.error.retriable:
        raise MissError(f"the library told the older producer to try again{app.after_errors}")
    await app.close("old")
    await app.goes_on("new")


@situation("fenced-while-sending", "fenced", "A newer producer has come, and the older one sends:"
           " is the record refused?")  # fmt: skip
async def while_sending(app: Application) -> None:
    """The partition has the newer epoch from the abort marker, so its leader answers
    INVALID_PRODUCER_EPOCH. The Java client fails the record.
    """
    await app.must_init("old")
    await app.open("lost-1", producer="old")
    await app.must_init("new")
    await app.must_be_refused("lost-3", "old")
    await app.close("old")
    await app.goes_on("new")


@situation("timed-out", "fenced", "The coordinator has aborted the transaction, which took too"
           " long: does the commit fail, and how does the application go on?",
           is_core=True)  # fmt: skip
async def timed_out(app: Application) -> None:
    """The coordinator has raised the epoch and aborted the transaction. In the Java client the
    commit fails, and the application continues with the next transaction (KIP-588) or with a new
    producer.
    """
    await app.must_init(transaction_timeout_ms=app.expiring_ms)
    transaction = await app.open("lost-1")
    await app.time_out()
    if await app.end(transaction) is ReportedEnd.COMMITTED:
        raise MissError('the library says "committed", though the coordinator has aborted it')
    await app.goes_on()


@situation("timed-out-while-sending", "fenced", "The coordinator has aborted the transaction, and"
           " the next record comes: is it kept out, and who goes on?")  # fmt: skip
async def timed_out_sending(app: Application) -> None:
    """The record has an older epoch than the abort marker, so it must not open a transaction
    again: nobody would end it. The Java client fails it.
    """
    await app.must_init(transaction_timeout_ms=app.expiring_ms)
    transaction = await app.open("lost-1")
    await app.time_out()
    answer = await app.send("lost-3")
    if answer.error is not None and answer.error.fatal:
        await app.close("p")
    else:
        await app.end(transaction, decision="abort" if answer.error else "commit")
        transaction.values = (*transaction.values, "lost-3")
    await app.goes_on()


@situation("fenced-by-administrator", "fenced", "An administrator fences the id while its"
           " transaction is open: does it work, and does the producer learn it?",
           about=("KAFKA-16570",), is_core=True)  # fmt: skip
async def by_administrator(app: Application) -> None:
    """``Admin.fenceProducers`` asks again while CONCURRENT_TRANSACTIONS is the answer, as the open
    transaction is being aborted (KAFKA-16570). The next call of the producer fails.
    """
    await app.must_init()
    transaction = await app.open("lost-1")
    await app.must("fence", bootstrap=app.target.bootstrap, client_id=CLIENT_ID,
                    transactional_id=app.name(TRANSACTIONAL_ID))  # fmt: skip
    if await app.end(transaction) is ReportedEnd.COMMITTED:
        raise MissError('the library says "committed", though an administrator has fenced it')
    await app.close("p")
    await app.goes_on()


@situation("fenced-by-own-late-init", "fenced", "The library's own InitProducerId is held for"
           " longer than it waits, is asked again, and arrives in the middle of the first"
           " transaction: it fences its own producer. How does the application go on?")  # fmt: skip
async def by_own_late_init(app: Application) -> None:
    """The late request raises the epoch and aborts the open transaction. The library must report
    that the producer is dead, or that the transaction must be aborted, and an application that
    obeys must be able to go on.
    """
    late_request_rule = await app.arm(
        point="client.request", api="InitProducerId", limit=1, action="hold"
    )
    await app.must_init()
    transaction = await app.open("a-1")
    answered_fault = await app.arm(
        must_strike=False, point="client.response", api="InitProducerId", action="pass"
    )
    await app.release(late_request_rule)
    await answered_fault.wait_until_struck(timeout_ms=2 * REQUEST_TIMEOUT_MS)
    await asyncio.sleep(0.3)  # the markers of the abort
    await app.end(transaction)
    await app.goes_on()


@situation("fenced-one-of-a-pool", "fenced", "Of a pool of ids one is taken over by a newer"
           " instance: are the producers of the other ids left alone?",
           about=("Flink's pooled ids",), is_core=True)  # fmt: skip
async def one_of_a_pool(app: Application) -> None:
    """An id fences its own older producer, and no other (KIP-98)."""
    await app.must_init("p", transactional_id="shop")
    await app.must_init("q", transactional_id="till")
    lost_transaction = await app.open("lost-1", producer="p")
    kept_entry = await app.open("a-1", producer="q")
    await app.must_init("newer", transactional_id="shop")
    await app.must_send(kept_entry, "b-2", "q")
    await app.must_end(kept_entry, "q", "commit")
    await app.must_transact("c-1", producer="newer")
    if await app.end(lost_transaction, producer="p") is ReportedEnd.COMMITTED:
        raise MissError("the library told the older producer that it has committed")
    await app.goes_on("q")


@situation("administrator-aborts", "fenced", "A producer is gone and its transaction is open: can"
           " an administrator abort it?", about=("franz-go 8ad0127f",))  # fmt: skip
async def administrator_aborts(app: Application) -> None:
    """``Admin.abortTransaction`` writes a marker with the coordinator epoch that
    ``describeProducers`` returns (KIP-664). The partition knows an epoch above 0, as the
    coordinator has moved before, and refuses a marker with an older one.
    """
    admin = await app.target.admin()
    await app.move_leader_of(await app.target.home_of_id(app.name("gone")))
    dead_producer = Producer(admin.cluster, transactional_id=app.name("gone"))
    await dead_producer.init_transactions()
    for value in (b"lost-1", b"lost-3"):
        dead_producer.begin()
        await dead_producer.send(app.name(TOPIC_NAME), 1, value)
        if value == b"lost-1":
            await dead_producer.abort()
    app.steps.append("a producer is gone, and its transaction is open in partition 1")
    await app.must("abort-open", bootstrap=app.target.bootstrap, client_id=CLIENT_ID,
                    topic=app.name(TOPIC_NAME), partition=1)  # fmt: skip
    stable_offset = await app.end_of(1, reads_committed=True)
    app.expect(stable_offset, await app.end_of(1), "readers get to")


@situation("init-lost", "fenced", "The first InitProducerId is lost, and the application waits for"
           " a shorter time than the library. It asks again, gets a producer, and has a transaction"
           " open when the library would have sent the lost request again: is it left alone?",
           about=("spring-kafka #1408",))  # fmt: skip
async def init_lost(app: Application) -> None:
    """Each InitProducerId fences the producers before it (KIP-98), so a library must not leave one
    behind that still asks for its id. In the Java client the second call of ``initTransactions``
    waits for the same request as the first one.
    """
    drop_rule = await app.arm(point="client.request", api="InitProducerId", limit=1, action="drop")
    await run_together(
        app.must_init(patience_ms=LOSS_PATIENCE_MS // 2, request_timeout_ms=LOSS_PATIENCE_MS),
        drop_rule.wait_until_struck(),
    )
    transaction = await app.open("a-1")
    await asyncio.sleep(LOSS_PATIENCE_MS * 1.5 / 1_000)
    await app.must_end(transaction)
    await app.goes_on()


@situation("dies-with-open", "fenced", "A process dies with a transaction open, and another one"
           " takes its place: do readers get on at once?",
           about=("databricks/iceberg-kafka-connect #200",))  # fmt: skip
async def dies_with_open(app: Application) -> None:
    """InitProducerId of the same id aborts the transaction that its dead producer left open
    (KIP-98). If each process has another id, nothing aborts it, and readers wait for
    ``transaction.timeout.ms``.
    """
    await app.must_init("old")
    await app.open("lost-1", producer="old")
    app.steps.append("the process of old is gone: it does nothing more")
    await app.must_init("new")
    kept_entry = app.ledger.begin()
    await app.must("begin", producer="new")
    await app.gets_free(1)
    await app.must_send(kept_entry, "kept-1", "new")
    await app.must_end(kept_entry, "new")
    await app.close("old")


@situation("goes-back", "fenced", "A process dies with a transaction open, and another one goes on"
           " from a state that is older than the last commit: do readers get on at once?",
           about=("FLINK-40626",))  # fmt: skip
async def goes_back(app: Application) -> None:
    """A library that commits a transaction from its saved state after a restart must abort what its
    id has opened since then (KIP-939: the state is not that of the open transaction). No other
    client would abort it. This does not apply if a library keeps no state.
    """
    await app.must_init("old")
    kept_entry = await app.open("a-1", producer="old")
    coordinator_state = (await app.must("commit", producer="old")).state
    kept_entry.reported_end = ReportedEnd.COMMITTED
    if not coordinator_state:
        raise NotAskedError("the library keeps no state of its transactions")
    await app.must_transact("b-1", producer="old")
    await app.open("lost-1", producer="old")
    app.steps.append("the process of old is gone: it does nothing more")
    await app.must_init("new", state=coordinator_state)
    await app.must("begin", producer="new")
    await app.gets_free(1)
    await app.close("old")


SITUATIONS: Final[tuple[Situation, ...]] = (
    by_newer,
    while_sending,
    timed_out,
    timed_out_sending,
    by_administrator,
    by_own_late_init,
    one_of_a_pool,
    administrator_aborts,
    init_lost,
    dies_with_open,
    goes_back,
)
