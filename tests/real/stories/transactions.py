"""Transactions v2: in order and with every mistake."""

from __future__ import annotations

from typing import Final

from tests.real.stories.txn import StoryTxn, ask_at_both_levels, producers_of
from txnsim_lab.conformance._book.frame_player import FramePlayer, Story, Topic


def new_flow(player: FramePlayer) -> None:
    """Transactions v2: Produce 12 and 13 add partitions, EndTxn 5 bumps the epoch; and mistakes."""
    for version in (12, 13):
        topic = player.create_topic(f"t{version}", partitions=2)
        txn = StoryTxn(player, f"id-{version}")
        txn.end("commit of nothing", 5)
        txn.end("abort of nothing", 5, committed=False)
        txn.wait_until_ended("CompleteAbort")
        txn.end("abort of nothing again", 5, committed=False)
        txn.wait_until_ended("CompleteAbort")
        txn.send("starts at 5", topic, version, 5)
        txn.send("wrong pid", topic, version, 0, producer_id=txn.pid + 100_000)
        txn.send("higher epoch", topic, version, 0, epoch=txn.epoch + 1)
        txn.send("lower epoch", topic, version, 0, epoch=txn.epoch - 1)
        txn.describe("before")
        txn.send("first", topic, version, 0)
        txn.describe("open")
        txn.send("second", topic, version, 1)
        txn.send("duplicate", topic, version, 1)
        txn.send("gap", topic, version, 9)
        txn.send("other partition", topic, version, 0, partition=1)
        txn.send("not transactional", topic, version, 2, is_transactional=False)
        txn.send("stale epoch", topic, version, 2, epoch=txn.epoch - 1)
        producers_of(player, topic, "open")
        ask_at_both_levels(player, topic, "open")
        txn.end("wrong pid", 5, producer_id=txn.pid + 100_000)
        txn.end("lower epoch", 5, epoch=txn.epoch - 1)
        txn.end("higher epoch", 5, epoch=txn.epoch + 1)
        for transactional_id in ("", player.full_name("nobody")):
            player.ask(
                "EndTxn",
                5,
                f"id {transactional_id[-6:]!r}",
                transactional_id=transactional_id,
                producer_id=txn.pid,
                producer_epoch=txn.epoch,
                committed=True,
            )
        new_flow_ended(player, topic, txn, version)


def new_flow_ended(player: FramePlayer, topic: Topic, txn: StoryTxn, version: int) -> None:
    """End the transaction; retry the end, fence the producer, and mix in the old protocol."""
    old_epoch = txn.epoch
    txn.end("commit", 5)
    txn.wait_until_ended("CompleteCommit")
    producers_of(player, topic, "committed")
    ask_at_both_levels(player, topic, "committed")
    txn.end("commit retried", 5, epoch=old_epoch)
    txn.end("abort of what was committed", 5, epoch=old_epoch, committed=False)
    txn.end("commit of nothing", 5)
    txn.send("late record", topic, version, 2, epoch=old_epoch)
    txn.send("at 3", topic, version, 3)
    txn.send("next", topic, version, 0)
    old_epoch = txn.epoch
    txn.end("abort", 5, committed=False)
    txn.wait_until_ended("CompleteAbort")
    txn.end("abort retried", 5, epoch=old_epoch, committed=False)
    txn.end("commit of what was aborted", 5, epoch=old_epoch)
    txn.send("late record", topic, version, 1, epoch=old_epoch)
    ask_at_both_levels(player, topic, "aborted")
    txn.send("third", topic, version, 0)
    txn.end("old duplicate", 5, epoch=old_epoch, committed=False)
    old_epoch = txn.epoch
    txn.init("fence", 5)
    txn.wait_until_ended("CompleteAbort")
    txn.reinit("after the fence", 5)
    txn.end("of the fenced", 5, epoch=old_epoch)
    txn.end("of the fenced", 5, epoch=old_epoch, committed=False)
    txn.send("of the fenced", topic, version, 1, epoch=old_epoch)
    txn.init("of the fenced", 5, expected=(txn.pid, old_epoch))
    txn.describe("after the fence")
    producers_of(player, topic, "after the fence")
    txn.send("new", topic, version, 0)
    txn.end("by the old protocol", 4)
    txn.wait_until_ended("CompleteCommit")
    txn.end("again by the old protocol", 4)
    txn.end("again by the new", 5)
    producers_of(player, topic, "new")
    txn.add("add by the old protocol", topic, 3)
    txn.send("old protocol", topic, 11, 1)
    txn.end("end by the new", 5)
    txn.wait_until_ended("CompleteCommit")
    ask_at_both_levels(player, topic, "mixed")


STORIES: Final[tuple[tuple[Story, int], ...]] = ((new_flow, 1), (new_flow, 2))
"""Stories with the levels of ``transaction.version`` at which they are played."""
