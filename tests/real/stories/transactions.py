"""Transactions: in order and with every mistake, at each level of ``transaction.version``."""

from __future__ import annotations

from typing import Any, Final

from tests.real.stories.player import Player, Story, Topic
from tests.real.stories.txn import Txn, add_values, both_views, producers_of


def init_producer_id(player: Player) -> None:
    """Every version, without and with a transactional id, expected identities, timeouts."""
    player.coordinator(player.name())
    player.producer()

    def init(
        note: str,
        version: int,
        transactional_id: str | None,
        *,
        timeout: int = 60_000,
        pid: int = -1,
        epoch: int = -1,
    ) -> Any:
        return player.settled(
            "InitProducerId",
            version,
            note,
            transactional_id=transactional_id,
            transaction_timeout=timeout,
            producer_id=pid,
            producer_epoch=epoch,
        )

    for version in range(6):
        init("idempotent", version, None)
        init("idempotent, no timeout", version, None, timeout=0)
        init("empty id", version, "")
        for timeout in (0, -1, 900_000, 900_001, 2**31 - 1):
            init(
                f"timeout {timeout}", version, player.name(f"v{version}-{timeout}"), timeout=timeout
            )
        name = player.name(f"v{version}")
        first = init("first", version, name)
        init("second", version, name)
        if version < 3:
            continue
        pid = first.producer_id
        init("pid only", version, name, pid=pid)
        init("epoch only", version, name, epoch=0)
        init("idempotent with expected", version, None, pid=pid, epoch=0)
        init("current", version, name, pid=pid, epoch=1)
        init("the same again", version, name, pid=pid, epoch=1)
        init("older", version, name, pid=pid, epoch=0)
        init("too new", version, name, pid=pid, epoch=9)
        init("other pid", version, name, pid=pid + 100_000, epoch=2)
        init("negative pid", version, name, pid=-2, epoch=2)
        init("negative epoch", version, name, pid=pid, epoch=-2)
        init("unknown id with expected", version, player.name(f"new-{version}"), pid=pid, epoch=7)
        init("id and both wrong", version, "", pid=pid)
        init("again", version, name)
        player.ask("DescribeTransactions", 0, "afterwards", transactional_ids=[name])


def add_partitions(player: Player) -> None:
    """Every version and every refusal."""
    topic = player.topic(partitions=2)
    missing: Topic = (player.name("missing"), None)
    for version in range(6):
        txn = Txn(player, f"id-{version}")
        txn.add("unknown topic", missing, version)
        txn.add("unknown partition", topic, version, 0, 7)
        txn.add("internal", ("__transaction_state", None), version)
        player.ask(
            "AddPartitionsToTxn",
            version,
            "internal, unknown and known",
            **add_values(
                txn.id,
                txn.pid,
                txn.epoch,
                [("__consumer_offsets", [0]), (missing[0], [0]), (topic[0], [0])],
            ),
        )
        txn.add("wrong pid", topic, version, pid=txn.pid + 100_000)
        txn.add("lower epoch", topic, version, epoch=-1)
        txn.add("higher epoch", topic, version, epoch=5)
        for name in ("", player.name("nobody")):
            player.ask(
                "AddPartitionsToTxn",
                version,
                f"id {name[-6:]!r}",
                **add_values(name, txn.pid, txn.epoch, [(topic[0], [0])]),
            )
        player.ask(
            "AddPartitionsToTxn", version, "no topics", **add_values(txn.id, txn.pid, txn.epoch, [])
        )
        txn.describe("after no topics")
        txn.add("one", topic, version)
        txn.add("again", topic, version)
        txn.describe("ongoing")
        txn.add("both", topic, version, 1, 0)
        txn.add("same twice", topic, version, 1, 1)
        player.ask(
            "AddPartitionsToTxn",
            version,
            "same topic twice",
            **add_values(txn.id, txn.pid, txn.epoch, [(topic[0], [0]), (topic[0], [1])]),
        )
        txn.describe("ongoing")
        if version >= 4:
            txn.add("verify", topic, version, verify=True)
            txn.add("verify unknown partition", topic, version, 0, 9, verify=True)
            txn.add("verify wrong pid", topic, version, pid=txn.pid + 100_000, verify=True)
            txn.add("verify wrong epoch", topic, version, epoch=5, verify=True)
            fresh = Txn(player, f"fresh-{version}")
            fresh.add("verify what was never added", topic, version, verify=True)
            for name in ("", player.name("nobody")):
                player.ask(
                    "AddPartitionsToTxn",
                    version,
                    f"verify id {name[-6:]!r}",
                    **add_values(name, txn.pid, txn.epoch, [(topic[0], [0])], verify=True),
                )
            one = add_values(txn.id, txn.pid, txn.epoch, [(topic[0], [0])], verify=True)[
                "transactions"
            ]
            two = add_values(fresh.id, fresh.pid, fresh.epoch, [(topic[0], [0, 1])])["transactions"]
            player.ask("AddPartitionsToTxn", version, "two transactions", transactions=one + two)
            player.ask("AddPartitionsToTxn", version, "the same twice", transactions=one + one)
            player.unanswered("AddPartitionsToTxn", version, "none", transactions=[])


def old_flow(player: Player) -> None:
    """AddPartitionsToTxn, Produce up to 11, EndTxn up to 4: commit, abort, retry, every mistake."""
    for version in (3, 7, 10, 11):
        end = {3: 0, 7: 1, 10: 3, 11: 4}[version]
        add = {3: 0, 7: 1, 10: 2, 11: 3}[version]
        topic = player.topic(f"t{version}", partitions=2)
        txn = Txn(player, f"id-{version}")
        txn.end("commit of nothing", end)
        txn.end("abort of nothing", end, committed=False)
        txn.send("not added", topic, version, 0)
        txn.add("add", topic, add)
        txn.send("first", topic, version, 0)
        txn.send("second", topic, version, 1)
        txn.send("duplicate", topic, version, 1)
        txn.send("gap", topic, version, 9)
        txn.send("other partition not added", topic, version, 0, partition=1)
        txn.send("wrong pid", topic, version, 0, pid=txn.pid + 100_000)
        txn.send("wrong epoch", topic, version, 2, epoch=txn.epoch + 1)
        txn.send("not transactional", topic, version, 2, transactional=False)
        producers_of(player, topic, "open")
        both_views(player, topic, "open")
        txn.describe("open")
        txn.end("wrong pid", end, pid=txn.pid + 100_000)
        txn.end("lower epoch", end, epoch=txn.epoch - 1)
        txn.end("higher epoch", end, epoch=txn.epoch + 1)
        for name in ("", player.name("nobody")):
            player.ask(
                "EndTxn",
                end,
                f"id {name[-6:]!r}",
                transactional_id=name,
                producer_id=txn.pid,
                producer_epoch=txn.epoch,
                committed=True,
            )
        txn.end("commit", end)
        txn.completed("CompleteCommit")
        producers_of(player, topic, "committed")
        both_views(player, topic, "committed")
        txn.end("commit again", end)
        txn.end("abort after commit", end, committed=False)
        txn.send("without a transaction", topic, version, 2)
        txn.add("next", topic, add)
        txn.send("next", topic, version, 2)
        txn.end("abort", end, committed=False)
        txn.completed("CompleteAbort")
        txn.end("abort again", end, committed=False)
        txn.end("commit after abort", end)
        both_views(player, topic, "aborted")
        txn.send("duplicate of what was aborted", topic, version, 2)
        # A second producer with the same id fences the first, in the middle of a transaction.
        txn.add("third", topic, add)
        txn.send("third", topic, version, 3)
        old = txn.epoch
        txn.init("fence", {3: 0, 7: 2, 10: 4, 11: 5}[version])
        txn.completed("CompleteAbort")
        txn.reinit("after the fence")
        txn.add("of the fenced", topic, add, epoch=old)
        txn.end("of the fenced", end, epoch=old)
        txn.send("of the fenced", topic, version, 4, epoch=old)
        txn.init("of the fenced", 4, expected=(txn.pid, old))
        txn.describe("after the fence")
        producers_of(player, topic, "after the fence")
        both_views(player, topic, "after the fence")
        txn.add("new", topic, add)
        txn.send("new at 4", topic, version, 4)
        txn.send("new at 0", topic, version, 0)
        txn.end("new", end)
        txn.completed("CompleteCommit")
        producers_of(player, topic, "new")


def new_flow(player: Player) -> None:
    """Transactions v2: Produce 12 and 13 add, EndTxn 5 bumps; every mistake."""
    for version in (12, 13):
        topic = player.topic(f"t{version}", partitions=2)
        txn = Txn(player, f"id-{version}")
        txn.end("commit of nothing", 5)
        txn.end("abort of nothing", 5, committed=False)
        txn.completed("CompleteAbort")
        txn.end("abort of nothing again", 5, committed=False)
        txn.completed("CompleteAbort")
        txn.send("starts at 5", topic, version, 5)
        txn.send("wrong pid", topic, version, 0, pid=txn.pid + 100_000)
        txn.send("higher epoch", topic, version, 0, epoch=txn.epoch + 1)
        txn.send("lower epoch", topic, version, 0, epoch=txn.epoch - 1)
        txn.describe("before")
        txn.send("first", topic, version, 0)
        txn.describe("open")
        txn.send("second", topic, version, 1)
        txn.send("duplicate", topic, version, 1)
        txn.send("gap", topic, version, 9)
        txn.send("other partition", topic, version, 0, partition=1)
        txn.send("not transactional", topic, version, 2, transactional=False)
        txn.send("stale epoch", topic, version, 2, epoch=txn.epoch - 1)
        producers_of(player, topic, "open")
        both_views(player, topic, "open")
        txn.end("wrong pid", 5, pid=txn.pid + 100_000)
        txn.end("lower epoch", 5, epoch=txn.epoch - 1)
        txn.end("higher epoch", 5, epoch=txn.epoch + 1)
        for name in ("", player.name("nobody")):
            player.ask(
                "EndTxn",
                5,
                f"id {name[-6:]!r}",
                transactional_id=name,
                producer_id=txn.pid,
                producer_epoch=txn.epoch,
                committed=True,
            )
        new_flow_ended(player, topic, txn, version)


def new_flow_ended(player: Player, topic: Topic, txn: Txn, version: int) -> None:
    """What follows when the transaction is ended, retried, fenced, mixed with the old protocol."""
    old = txn.epoch
    txn.end("commit", 5)
    txn.completed("CompleteCommit")
    producers_of(player, topic, "committed")
    both_views(player, topic, "committed")
    txn.end("commit retried", 5, epoch=old)
    txn.end("abort of what was committed", 5, epoch=old, committed=False)
    txn.end("commit of nothing", 5)
    txn.send("late record", topic, version, 2, epoch=old)
    txn.send("at 3", topic, version, 3)
    txn.send("next", topic, version, 0)
    old = txn.epoch
    txn.end("abort", 5, committed=False)
    txn.completed("CompleteAbort")
    txn.end("abort retried", 5, epoch=old, committed=False)
    txn.end("commit of what was aborted", 5, epoch=old)
    txn.send("late record", topic, version, 1, epoch=old)
    both_views(player, topic, "aborted")
    txn.send("third", topic, version, 0)
    txn.end("old duplicate", 5, epoch=old, committed=False)
    old = txn.epoch
    txn.init("fence", 5)
    txn.completed("CompleteAbort")
    txn.reinit("after the fence", 5)
    txn.end("of the fenced", 5, epoch=old)
    txn.end("of the fenced", 5, epoch=old, committed=False)
    txn.send("of the fenced", topic, version, 1, epoch=old)
    txn.init("of the fenced", 5, expected=(txn.pid, old))
    txn.describe("after the fence")
    producers_of(player, topic, "after the fence")
    txn.send("new", topic, version, 0)
    txn.end("by the old protocol", 4)
    txn.completed("CompleteCommit")
    txn.end("again by the old protocol", 4)
    txn.end("again by the new", 5)
    producers_of(player, topic, "new")
    txn.add("add by the old protocol", topic, 3)
    txn.send("old protocol", topic, 11, 1)
    txn.end("end by the new", 5)
    txn.completed("CompleteCommit")
    both_views(player, topic, "mixed")


def fence_with_expected(player: Player) -> None:
    """InitProducerId with an expected identity while a transaction is open."""
    topic = player.topic()
    for case, offset in (("current", 0), ("stale", -1), ("future", 1)):
        txn = Txn(player, case)
        txn.reinit("bump")
        txn.add("add", topic, 3)
        txn.send("send", topic, 11, 0)
        expected = (txn.pid, txn.epoch + offset)
        txn.init(f"expected {case}", 4, expected=expected)
        txn.completed("CompleteAbort")
        txn.reinit(f"expected {case} again", 4, expected=expected)
        txn.reinit(f"expected {case} once more", 4, expected=expected)
        txn.init("other pid", 4, expected=(txn.pid + 100_000, 0))
        txn.describe(case)


def timeouts(player: Player) -> None:
    """The coordinator aborts what takes too long; the client finds out."""
    open_at_once = [
        timed_out_later(player, version, end, then)
        for version, end in (((11, 4), (12, 5)) if player.level else ((11, 4),))
        for then in ("abort", "commit", "produce", "init")
    ]
    for txn, topic, version, end, then in open_at_once:
        pid, old = txn.pid, txn.epoch
        txn.completed("CompleteAbort")
        match then:
            case "abort":
                txn.end("abort", end, committed=False)
            case "commit":
                txn.end("commit", end)
            case "produce":
                txn.send("produce", topic, version, 1)
                txn.add("add", topic, 3, epoch=old)
            case _:
                txn.reinit("expected", 4, expected=(pid, old))
        txn.describe("afterwards")
        txn.reinit("plain")
        both_views(player, topic, "afterwards")


def timed_out_later(
    player: Player, version: int, end: int, then: str
) -> tuple[Txn, Topic, int, int, str]:
    """A transaction that the coordinator will abort. It has a topic of its own, as the order in
    which several time out is open, and time enough to send its record on a busy machine.
    """
    topic = player.topic(f"{then}-{version}")
    txn = Txn(player, f"{then}-{version}", timeout_ms=2_000)
    if version == 11:
        txn.add("add", topic, 3)
    txn.send("send", topic, version, 0)
    return txn, topic, version, end, then


def v2_requests_at_level_0(player: Player) -> None:
    """Transactions v2 spoken to a cluster at level 0."""
    topic = player.topic()
    txn = Txn(player, "produce")
    txn.send("implicit add", topic, 12, 0)
    txn.describe("afterwards")
    txn = Txn(player, "end")
    txn.add("add", topic, 3)
    txn.send("send", topic, 11, 0)
    txn.end("end", 5)
    txn.describe("afterwards")


def exhausted(player: Player) -> None:
    """Epoch 32766, the last one: what ends, fences or initializes there goes on with a new id."""
    topic = player.topic()
    for way in ("init", "expected", "end", "abort", "fence"):
        name = player.name(way)
        player.climb(name, 32765)
        txn = Txn(player, way)
        player.note(f"{way} is at", txn.first)
        old = (txn.pid, txn.epoch)
        match way:
            case "init":
                txn.reinit("plain")
            case "expected":
                for _ in range(3):
                    txn.init("expected", 4, expected=old)
            case "end" | "abort":
                txn.send("last", topic, 12, 0)
                txn.end("at the end", 5, committed=way == "end")
                txn.completed("CompleteCommit" if way == "end" else "CompleteAbort")
                txn.end("again", 5, committed=way == "end", pid=old[0], epoch=old[1])
                txn.send("late", topic, 12, 1, pid=old[0], epoch=old[1])
                txn.send("next", topic, 12, 0)
            case _:
                txn.send("last", topic, 12, 0)
                txn.init("fence", 4)
                txn.completed("CompleteAbort")
                txn.end("of the fenced", 5, committed=False, pid=old[0], epoch=old[1])
                txn.init("of the fenced", 4, expected=old)
        txn.describe("afterwards")
        txn.reinit("plain again")
    producers_of(player, topic, "afterwards")
    both_views(player, topic, "afterwards")


AT_EVERY_LEVEL: Final[tuple[Story, ...]] = (
    init_producer_id,
    add_partitions,
    old_flow,
    fence_with_expected,
    timeouts,
)
STORIES: Final = (
    *((story, level) for level in (0, 1, 2) for story in AT_EVERY_LEVEL),
    *((new_flow, level) for level in (1, 2)),
    (v2_requests_at_level_0, 0),
    (exhausted, 2),
)
"""Stories with the levels of ``transaction.version`` at which they are played."""
