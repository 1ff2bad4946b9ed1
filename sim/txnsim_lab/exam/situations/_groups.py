"""Committing the positions of groups in transactions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Final, cast

from txnsim.client.members.membership import GroupProtocol
from txnsim_lab.exam._application import POLLS_MAX, Application, run_together
from txnsim_lab.exam._driver import Answer
from txnsim_lab.exam._ledger import ReportedEnd
from txnsim_lab.exam.situation import PlaySituation, Situation, situation

PENDING_POLLS: Final = 3


@situation("offsets-commit-and-abort", "groups", "Positions go with their transaction: do those of"
           " a commit count, and those of an abort not?", groups=("g",))  # fmt: skip
async def commit_and_abort(app: Application) -> None:
    """Positions are part of their transaction: they count when it commits (KIP-98)."""
    await app.must_init()
    await app.must_transact("a-1", group="g", position=3)
    await app.must_transact("lost-1", group="g", position=5, end="abort")
    await app.goes_on()


@situation("group-coordinator-dies", "groups", "The group's coordinator dies and stays dead before"
           " the positions are sent: is the new one found?", groups=("g",),
           about=("librdkafka #5511",), is_core=True)  # fmt: skip
async def coordinator_dies(app: Application) -> None:
    """The coordinator is known from the transaction before. The Java client sends FindCoordinator
    when its connection is lost, and TxnOffsetCommit again. The broker leads a partition, too: so
    the library learns that it is gone before the positions are sent.
    """
    await app.with_leader("g", 0)
    await app.must_init()
    await app.must_transact("a-1", group="g", position=3)
    await app.kill_group_coordinator("g")
    await asyncio.sleep(1)
    await app.must_transact("b-2", group="g", position=4)


@situation("group-coordinator-moves", "groups", "The group's coordinator moves before the positions"
           " are sent.", groups=("g",))  # fmt: skip
async def coordinator_moves(app: Application) -> None:
    """TxnOffsetCommit is answered NOT_COORDINATOR. The Java client sends FindCoordinator, and
    TxnOffsetCommit again.
    """
    await app.must_init()
    await app.must_transact("a-1", group="g", position=3)
    await app.move_group("g")
    await app.must_transact("b-2", group="g", position=4)


@situation("positions-without-records", "groups", "A transaction has positions and no record, as"
           " all inputs were filtered out: do the positions count?", groups=("g",))  # fmt: skip
async def without_records(app: Application) -> None:
    """The Java client sends EndTxn where a group was added, and the positions count."""
    await app.must_init()
    transaction = app.ledger.begin(group="g", position=3)
    await app.must("begin", producer="p")
    app.expect_done(await app.send_offsets("g", 3), "sending the positions")
    await app.must_end(transaction)


PROTOCOLS: Final = ("classic", "consumer")
STEPS: Final = ("begin", "record", "positions")
INPUTS: Final = ("i-1", "i-2", "i-3")


def _rebalance_during(group_protocol: str, step: str) -> PlaySituation:
    """A worker reads, writes, and commits its positions in a transaction while another member joins
    its group.
    """

    async def play(app: Application) -> None:
        """Positions with the metadata of a member that is of an older generation are refused
        (KIP-447). Then the Java client's error asks for an abort. Accepted ones count with their
        transaction.
        """
        await app.fill_input(*INPUTS)
        await app.must_init()
        await app.subscribe("m", "g", group_protocol)
        app.expect(await app.poll(3, name="m"), list(INPUTS), "the member reads")
        transaction = app.ledger.begin("a-1", group="g", position=3)
        calls_by_name: dict[str, Callable[[], Awaitable[Answer]]] = {
            "begin": lambda: app.do("begin", producer="p"),
            "record": lambda: app.send("a-1"),
            "positions": lambda: app.send_offsets("g", 3, member="m"),
        }
        answer: Answer | None = None
        for name, make_call in calls_by_name.items():
            if answer is None or answer.error is None:
                answer = await make_call()
            if name == step:
                await _another_joins(app, group_protocol)
        assert answer is not None
        if answer.error is None:
            await app.end(transaction)
        else:
            await app.give_up(transaction, "p", answer.error)
        await app.goes_on()

    return play


async def _another_joins(app: Application, group_protocol: str) -> None:
    """Another member joins the group; the driver's member must poll so that the new one gets
    partitions.
    """

    members = app.kafka.members

    async def follow() -> None:
        while not join_marks:
            await app.poll_once("m")

    async def join() -> None:
        app.steps.append("another member joins the group")
        await members.join("g", ["input"], protocol=cast("GroupProtocol", group_protocol))
        join_marks.append(True)

    join_marks: list[bool] = []
    await run_together(join(), follow())


def _expel_member(group_protocol: str) -> PlaySituation:
    """A member that the group has expelled sends positions."""

    async def play(app: Application) -> None:
        """The group's coordinator refuses the positions of a member that it does not know
        (KIP-447). The Java client throws CommitFailedException, after which the application aborts.
        """
        await app.fill_input(*INPUTS)
        await app.must_init()
        await app.subscribe("m", "g", group_protocol)
        app.expect(await app.poll(3, name="m"), list(INPUTS), "the member reads")
        api = "Heartbeat" if group_protocol == "classic" else "ConsumerGroupHeartbeat"
        drop_rule = await app.arm(must_strike=False, point="client.request", api=api, action="drop")
        app.steps.append("another member joins the group, which gives the silent one up")
        await app.kafka.members.join("g", ["input"], protocol=cast("GroupProtocol", group_protocol))
        transaction = await app.transact("a-1", group="g", position=3, member="m")
        if transaction.reported_end is ReportedEnd.COMMITTED:
            app.names_of_choices.append(
                "it sends positions without its member's generation (KIP-447)"
            )
        await app.disarm(drop_rule)
        await app.goes_on()

    return play


def _pending_positions(group_protocol: str) -> PlaySituation:
    """A member asks for positions that are in an open transaction."""

    async def play(app: Application) -> None:
        """OffsetFetch with require-stable is answered UNSTABLE_OFFSET_COMMIT while positions are
        pending (KIP-447). The Java client asks again until the transaction has ended. A client that
        does not wait continues at the position before the transaction, and processes an input
        twice.
        """
        await app.fill_input(*INPUTS)
        await app.must_init()
        await app.must_transact("before-1", group="g", position=1)
        transaction = await app.open("a-1")
        transaction.group, transaction.position = "g", 2
        app.expect_done(await app.send_offsets("g", 2), "sending the positions")
        fetch_rule = await app.requests("OffsetFetch")
        await app.subscribe("m", "g", group_protocol)
        poll_count = 0
        for _ in range(POLLS_MAX):  # until it has asked, and some more
            app.expect(await app.poll_once("m"), [], "while positions are pending a member gets")
            poll_count += fetch_rule.matched > 0
            if poll_count == PENDING_POLLS:
                break
        await app.must_end(transaction, "p", "commit")
        app.expect(await app.poll(1, name="m"), ["i-3"], "then it gets")

    return play


def _situations_of(group_protocol: str) -> Iterator[Situation]:
    group = f"{group_protocol} protocol"
    for step in STEPS:
        yield situation(
            f"rebalance-after-{step}-{group_protocol}", "groups", f"Another member joins the group"
            f" ({group}) behind {step}: do the positions go with their transaction?",
            groups=("g",), is_core=step == "record",
        )(_rebalance_during(group_protocol, step))  # fmt: skip
    yield situation(
        f"expelled-member-{group_protocol}", "groups", f"A member whose heartbeats are lost is"
        f" given up by its group ({group}), and puts positions into a transaction: are they"
        " refused?",
        groups=("g",), is_core=True,
    )(_expel_member(group_protocol))  # fmt: skip
    yield situation(
        f"pending-positions-{group_protocol}", "groups", f"A group's positions ({group}) lie in an"
        " open transaction, and a member asks where it goes on: does it wait for the end?",
        groups=("g",), about=("confluent-kafka-go #525", "aiokafka #920"), is_core=True,
    )(_pending_positions(group_protocol))  # fmt: skip


SITUATIONS: Final[tuple[Situation, ...]] = (
    commit_and_abort,
    coordinator_dies,
    coordinator_moves,
    without_records,
    *(each_situation for protocol in PROTOCOLS for each_situation in _situations_of(protocol)),
)
