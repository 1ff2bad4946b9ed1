"""Share groups (KIP-932): the records that members get around transactions, and the fate of their
acknowledgements. The broker's rules are in the casebook; these situations test whether a library
reports truthfully to its application, and goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from txnsim.client.inspection.txn_views import AbortSpec
from txnsim.types import TopicPartition
from txnsim_lab.exam._application import Application
from txnsim_lab.exam._sharers import (
    GROUP,
    JOBS_TOPIC,
    OTHER_CLIENT_ID,
    READ_COMMITTED,
    SHORT_LOCK_MS,
    Sharers,
)
from txnsim_lab.exam.results import MissError
from txnsim_lab.exam.situation import PlaySituation, Situation, situation

SHARE_GROUP_LEVELS: Final = (2,)
"""Releases with share groups create new clusters at this level only."""
WITHIN_LOCK_S: Final = 10.0
"""Shorter than the duration of a lock."""
DELIVERY_LIMIT: Final = 3
SHORT_LOCK_CONFIGS: Final = {"share.record.lock.duration.ms": str(SHORT_LOCK_MS)}
_PlayWithSharers = Callable[[Application, Sharers], Awaitable[None]]


def _asks(
    name: str,
    asks: str,
    *,
    isolation: str = READ_COMMITTED,
    is_core: bool = False,
    configs: Mapping[str, str] = MappingProxyType({}),
) -> Callable[[_PlayWithSharers], Situation]:
    """A situation with a share group of this isolation level and these other configs."""

    def make_situation(play: _PlayWithSharers) -> Situation:
        async def play_with_sharers(app: Application) -> None:
            sharers = Sharers(app, isolation=isolation, configs=configs)
            await sharers.begin()
            try:
                await play(app, sharers)
            finally:
                await sharers.forget()

        play_with_sharers.__doc__ = play.__doc__
        of_kind: Callable[[PlaySituation], Situation] = situation(
            name, "share groups", asks, levels=SHARE_GROUP_LEVELS, is_core=is_core
        )
        return of_kind(play_with_sharers)

    return make_situation


@_asks("share-around-aborted", "Transactions of two producers lie through each other; one is"
       " aborted: does the member get the others, each once?", is_core=True)  # fmt: skip
async def around_aborted(app: Application, sharers: Sharers) -> None:
    """A leader acquires no record of an aborted transaction for a group with read_committed, but
    the batches come whole: the library leaves out what was not acquired.
    """
    await app.must_init("p", transactional_id="shop")
    await app.must_init("q", transactional_id="till")
    first_entry = await app.open("a-1", producer="p")
    second_entry = await app.open("lost-1", producer="q")
    await app.must_send(first_entry, "b-1", "p")
    await app.must_send(second_entry, "lost-3", "q")
    await app.must_end(second_entry, "q", "abort")
    await app.must_send(first_entry, "c-1", "p")
    await app.must_end(first_entry, "p", "commit")
    await app.must_transact("d-2", producer="q")
    await sharers.join()
    await sharers.work(wanted_values=("a-1", "b-1", "c-1", "d-2"))


@_asks("share-uncommitted-gets-aborted", "A transaction was aborted, and the group reads"
       " uncommitted records, the default: does the member get it?",
       isolation="read_uncommitted")  # fmt: skip
async def uncommitted_gets_aborted(app: Application, sharers: Sharers) -> None:
    """With read_uncommitted, the default of a group, records come also from transactions that
    were aborted. The isolation is the group's: a library must not leave them out by its own.
    """
    await app.must_init()
    await app.must_transact("lost-1", end="abort")
    await app.must_transact("a-1")
    await sharers.join()
    await sharers.work(wanted_values=("a-1", "lost-1"))


@_asks("share-stops-at-open", "A transaction is open: does the member get nothing behind it, and"
       " all of it when it has ended?", is_core=True)  # fmt: skip
async def stops_at_open(app: Application, sharers: Sharers) -> None:
    """A group with read_committed gets nothing from the last stable offset on."""
    await app.must_init("p", transactional_id="shop")
    await app.must_init("q", transactional_id="till")
    await app.must_transact("a-1", producer="p")
    open_entry = await app.open("b-1", producer="p")
    await app.must_transact("c-1", producer="q")
    await sharers.join()
    await sharers.work(wanted_values=("a-1",))
    await sharers.gets_nothing(subject="behind the open transaction the member gets")
    await app.must_end(open_entry, "p", "commit")
    await sharers.work(wanted_values=("a-1", "b-1", "c-1"))


@_asks("share-behind-hanging", "A transaction hangs until an operator ends it: is the member still"
       " there, and does it get what is behind?")  # fmt: skip
async def behind_hanging(app: Application, sharers: Sharers) -> None:
    """Brokers do not show transactions to a member. Polls are empty until the marker is written."""
    neighbour, admin = await app.neighbour(), await app.target.admin()
    partition = TopicPartition(app.name(JOBS_TOPIC), 0)
    await app.must_init()
    await app.must_transact("a-1")
    app.steps.append("a transaction that no coordinator knows is open in the partition")
    await neighbour.hang(admin, partition, "ghost")
    await app.must_transact("b-1")
    await sharers.join()
    await sharers.work(wanted_values=("a-1",))
    await sharers.gets_nothing(subject="behind the hanging transaction the member gets")
    app.steps.append("an operator aborts it")
    for producer in await admin.producers_of(partition):
        if producer.txn_start_offset is not None:
            await admin.abort_transaction(AbortSpec.of(partition, producer))
    await sharers.work(wanted_values=("a-1", "b-1"))


@_asks("share-behind-timed-out", "A transaction runs out of time, and its coordinator aborts it:"
       " does the member get what is behind, and nothing of it?")  # fmt: skip
async def behind_timed_out(app: Application, sharers: Sharers) -> None:
    """The coordinator writes an ABORT marker, as for any other abort."""
    await app.must_init("p", transaction_timeout_ms=app.expiring_ms)
    await app.must_init("q", transactional_id="till")
    await app.open("lost-1", producer="p")
    await app.must_transact("a-1", producer="q")
    await sharers.join()
    await sharers.gets_nothing(subject="behind the open transaction the member gets")
    await app.time_out()
    await sharers.work(wanted_values=("a-1",))


@_asks("share-release", "The member gives a record back: does it get it again, and can it accept it"
       " then?", is_core=True)  # fmt: skip
async def release(app: Application, sharers: Sharers) -> None:
    """A released record is available at once."""
    await app.must_init()
    await app.must_transact("a-1")
    await sharers.join()
    app.expect(await sharers.get(), ["a-1"], "the member gets")
    await sharers.must_acknowledge("release")
    await sharers.work(wanted_values=("a-1",))


@_asks("share-reject", "The member rejects a record: is it never given again, and do others come?",
       is_core=True)  # fmt: skip
async def reject(app: Application, sharers: Sharers) -> None:
    """What is rejected is archived."""
    await app.must_init()
    await app.must_transact("bad-1")
    await sharers.join()
    app.expect(await sharers.get(), ["bad-1"], "the member gets")
    await sharers.must_acknowledge("reject")
    await app.must_transact("a-1", "b-2")
    await sharers.work(wanted_values=("a-1", "b-2"))


@_asks("share-renew", "The member renews the lock of a record for longer than a lock lasts: is the"
       " record its own until it accepts it?",
       configs=SHORT_LOCK_CONFIGS)  # fmt: skip
async def renew(app: Application, sharers: Sharers) -> None:
    """RENEW starts the lock again and keeps the record acquired (KIP-1222)."""
    await app.must_init()
    await app.must_transact("a-1")
    await sharers.join("m")
    app.expect(await sharers.get("m"), ["a-1"], "the member gets")
    await sharers.join("n", client_id=OTHER_CLIENT_ID)
    for _ in range(4):
        await sharers.must_acknowledge("renew", "m")
        app.expect(await sharers.poll("n"), [], "the other member gets")
        await asyncio.sleep(SHORT_LOCK_MS / 3_000)
    await sharers.must_acknowledge("accept", "m")
    await sharers.gets_nothing("n", subject="the other member gets")


@_asks("share-delivery-limit", "A record was given back as often as the group delivers one: is it"
       " gone, and do others come?",
       configs={"share.delivery.count.limit": str(DELIVERY_LIMIT)})  # fmt: skip
async def delivery_limit(app: Application, sharers: Sharers) -> None:
    """At the delivery count limit of the group a record that is given back is archived."""
    await app.must_init()
    await app.must_transact("bad-1")
    await sharers.join()
    for _ in range(DELIVERY_LIMIT):
        app.expect(await sharers.get(), ["bad-1"], "the member gets")
        await sharers.must_acknowledge("release")
    await sharers.gets_nothing(subject="after the last delivery the member gets")
    await app.must_transact("a-1")
    await sharers.work(wanted_values=("a-1",))


@_asks("share-lock-runs-out", "A member takes longer than a lock lasts, and accepts: is it told"
       " that the record is no longer its own?", is_core=True,
       configs=SHORT_LOCK_CONFIGS)  # fmt: skip
async def lock_runs_out(app: Application, sharers: Sharers) -> None:
    """The leader answers INVALID_RECORD_STATE while the record is another member's."""
    await app.must_init()
    await app.must_transact("a-1")
    await sharers.join("m")
    app.expect(await sharers.get("m"), ["a-1"], "the member gets")
    await sharers.join("n", client_id=OTHER_CLIENT_ID)
    await asyncio.sleep(SHORT_LOCK_MS / 1_000)
    app.expect(await sharers.get("n"), ["a-1"], "when the lock has run out, the other one gets")
    if await sharers.acknowledge("accept", "m"):
        raise MissError("the library says that a record was accepted that another member has")
    await sharers.must_acknowledge("accept", "n")
    await app.must_transact("b-1")
    await sharers.work("m", "n", wanted_values=("a-1", "b-1"))


@_asks("share-member-closes", "A member closes without a word on what it got: does another one get"
       " it soon?")  # fmt: skip
async def member_closes(app: Application, sharers: Sharers) -> None:
    """The last request of a share session gives back what the member has (KIP-932)."""
    await app.must_init()
    await app.must_transact("a-1")
    await sharers.join("m")
    app.expect(await sharers.get("m"), ["a-1"], "the member gets")
    await sharers.join("n", client_id=OTHER_CLIENT_ID)
    async with app.within(WITHIN_LOCK_S, "that the other member gets what was not acknowledged"):
        await app.close("m")
        await sharers.work("n", wanted_values=("a-1",))


@_asks("share-connection-lost", "The connections of a member break while it has records: is it told"
       " the truth of what it accepts, and does it go on?", is_core=True)  # fmt: skip
async def connection_lost(app: Application, sharers: Sharers) -> None:
    """A leader gives back what a member has whose connection ends (KIP-932), and its session is
    gone: an acceptance by a new one is refused.
    """
    await app.must_init()
    await app.must_transact("a-1", "b-2")
    await sharers.join()
    await sharers.get()
    fetch_rule = await app.arm(point="client.request", api="ShareFetch", limit=2,
                               action="disconnect", must_strike=False)  # fmt: skip
    acknowledge_rule = await app.arm(point="client.request", api="ShareAcknowledge", limit=1,
                                     action="disconnect", must_strike=False)  # fmt: skip
    await sharers.acknowledge("accept")
    for _ in range(2):
        if await sharers.poll():
            await sharers.acknowledge("accept")
    await app.disarm(fetch_rule)
    await app.disarm(acknowledge_rule)
    await sharers.work(wanted_values=("a-1", "b-2"))


def _answer_lost(api: str) -> _PlayWithSharers:
    async def play(app: Application, sharers: Sharers) -> None:
        """The leader has persisted the acceptance, and its answer is lost. Asked again it refuses,
        so a library may report a failure or success.
        """
        await app.must_init()
        await app.must_transact("a-1")
        await sharers.join()
        await sharers.get()
        await app.arm(point="client.response", api=api, limit=1, action="disconnect")
        await sharers.acknowledge("accept")
        sharers.accepted_values.add("a-1")  # the leader has it, also if the library does not know
        await app.must_transact("b-1")
        await sharers.work(wanted_values=("a-1", "b-1"))

    return play


def _refuse_session(error: str) -> _PlayWithSharers:
    async def play(app: Application, sharers: Sharers) -> None:
        """A library opens another session, and reports that the acceptance has failed: the record
        is delivered again when its lock expires.
        """
        await app.must_init()
        await app.must_transact("a-1")
        await sharers.join()
        await sharers.get()
        refused: dict[str, Any] = {"do": "error", "error": error}
        for api in ("ShareFetch", "ShareAcknowledge"):
            await app.arm(point="client.request", api=api, limit=1, action=refused,
                          must_strike=False)  # fmt: skip
        await sharers.acknowledge("accept")
        await app.must_transact("b-1")
        await sharers.work(wanted_values=("a-1", "b-1"))

    return play


_LOST_ANSWERS: Final = _asks(
    "share-acceptance-unanswered",
    "The answer to an acceptance is lost: does the member go on, and is the record not given"
    " again?",
)(_answer_lost("ShareAcknowledge"))
_REFUSED_SESSIONS: Final = tuple(
    _asks(
        name,
        f"The leader answers {error}: does the member open another session, and go on?",
        configs=SHORT_LOCK_CONFIGS,
    )(_refuse_session(error))
    for name, error in (
        ("share-session-not-found", "SHARE_SESSION_NOT_FOUND"),
        ("share-session-epoch-wrong", "INVALID_SHARE_SESSION_EPOCH"),
    )
)


@_asks("share-leader-moves", "The partition gets another leader while a member has its record: is"
       " it told the truth, and does it go on?", is_core=True)  # fmt: skip
async def leader_moves(app: Application, sharers: Sharers) -> None:
    """The new leader knows the acknowledged records, but not the records that were only
    acquired.
    """
    await app.must_init()
    await app.must_transact("a-1")
    await sharers.join()
    await sharers.get()
    await app.move_leader(0)
    await sharers.acknowledge("accept")
    await app.must_transact("b-1")
    await sharers.work(wanted_values=("a-1", "b-1"))


@_asks("share-leader-dies", "The broker of the leader dies while a member has its record: is it"
       " told the truth, and does it go on?")  # fmt: skip
async def leader_dies(app: Application, sharers: Sharers) -> None:
    """As in the situation where the leader moves; the answer may be lost as well."""
    await app.must_init()
    await app.must_transact("a-1")
    await sharers.join()
    await sharers.get()
    admin = await app.target.admin()
    app.steps.append("the broker of the leader dies")
    await app.kill(await admin.leader_of(TopicPartition(app.name(JOBS_TOPIC), 0)))
    await sharers.acknowledge("accept")
    await app.goes_on(value="b")
    await sharers.work(wanted_values=("a-1", "b-1"))


@_asks("share-coordinator-moves", "The group gets another coordinator: does the member go on?")
async def coordinator_moves(app: Application, sharers: Sharers) -> None:
    """Sessions are the leaders'; the member's next heartbeat finds the new coordinator."""
    await app.must_init()
    await app.must_transact("a-1")
    await sharers.join()
    await sharers.work(wanted_values=("a-1",))
    await app.move_group(GROUP)
    await app.must_transact("b-1", "c-2")
    await sharers.work(wanted_values=("a-1", "b-1", "c-2"))


@_asks("share-two-members", "Two members share a partition: does one of them get each record,"
       " and never a second time?")  # fmt: skip
async def two_members(app: Application, sharers: Sharers) -> None:
    """A record is one member's while it is acquired."""
    await app.must_init()
    await sharers.join("m")
    await sharers.join("n", client_id=OTHER_CLIENT_ID)
    values = [f"a{index}-{1 + index % 2}" for index in range(8)]
    for start_offset in range(0, 8, 4):
        await app.must_transact(*values[start_offset : start_offset + 4], end="commit")
        await app.must_transact(f"lost{start_offset}-1", end="abort")
    await sharers.work("m", "n", wanted_values=values)


SITUATIONS: Final = (
    around_aborted,
    uncommitted_gets_aborted,
    stops_at_open,
    behind_hanging,
    behind_timed_out,
    release,
    reject,
    renew,
    delivery_limit,
    lock_runs_out,
    member_closes,
    connection_lost,
    _LOST_ANSWERS,
    *_REFUSED_SESSIONS,
    leader_moves,
    leader_dies,
    coordinator_moves,
    two_members,
)
