"""What operators and coordinators ask: states of transactions, who coordinates."""

from __future__ import annotations

from typing import Any, Final

from tests.real.stories.txn import StoryTxn, marker, producers_of
from txnsim_lab.conformance._book.frame_player import FramePlayer, Story

PATTERNS: Final = (
    *(
        None,
        "",
        ".*-open",
        "open",
        "(?i).*-OPEN",
        "(",
        "a{2",
        ".*(?=x)",
        "(.)\\1",
        ".*?",
        "*",
        "x*+",
    ),
)


def describing(player: FramePlayer) -> None:
    """DescribeProducers, DescribeTransactions and ListTransactions with their filters."""
    topic = player.create_topic(partitions=2)
    for name, partitions in (
        (topic[0], [0, 1, 7, -1]),
        (player.full_name("missing"), [0]),
        ("a b", [0]),
        ("", [0]),
        (topic[0], []),
    ):
        player.ask(
            "DescribeProducers",
            0,
            f"{name[-8:]!r} {partitions}",
            topics=[{"name": name, "partition_indexes": partitions}],
        )
    player.ask(
        "DescribeProducers",
        0,
        "same twice",
        topics=[
            {"name": topic[0], "partition_indexes": [0, 0]},
            {"name": topic[0], "partition_indexes": [1]},
        ],
    )
    player.ask("DescribeProducers", 0, "none", topics=[])
    idle_txn = StoryTxn(player, "idle")
    txn = StoryTxn(player, "open")
    txn.add("add", topic, 3, 0, 1)
    finished_txn = StoryTxn(player, "done")
    finished_txn.quiet_add(topic)
    finished_txn.end("commit", 3)
    finished_txn.wait_until_ended("CompleteCommit")
    player.ask(
        "DescribeTransactions",
        0,
        "several",
        transactional_ids=[idle_txn.id, "", player.full_name("nobody"), txn.id, finished_txn.id],
    )
    player.ask(
        "DescribeTransactions", 0, "same twice", transactional_ids=[idle_txn.id, idle_txn.id]
    )
    player.ask("DescribeTransactions", 0, "none", transactional_ids=[])
    pids = [idle_txn.pid, txn.pid, finished_txn.pid]
    for version in range(3):
        list_by_filters(player, version, txn, pids)
    for pattern in (*PATTERNS, txn.id):
        player.ask(
            "ListTransactions",
            2,
            f"pattern {(pattern or '')[-8:]!r}",
            transactional_id_pattern=pattern,
            producer_id_filters=pids,
        )
    txn.end("abort", 3, committed=False)


def list_by_filters(player: FramePlayer, version: int, txn: StoryTxn, pids: list[int]) -> None:
    """ListTransactions by state, producer and duration."""
    for states in (
        [],
        ["Ongoing"],
        ["Empty", "Ongoing"],
        ["ongoing"],
        ["Nonsense"],
        ["Nonsense", "Empty"],
        ["Dead"],
        ["PrepareEpochFence"],
        [""],
        ["Ongoing", "Ongoing"],
        ["CompleteCommit"],
    ):
        player.ask(
            "ListTransactions",
            version,
            f"states {states}",
            state_filters=states,
            producer_id_filters=pids,
        )
    for producer_ids in ([txn.pid], [txn.pid, txn.pid + 100_000], [-1], [txn.pid + 100_000]):
        player.ask(
            "ListTransactions",
            version,
            f"{len(producer_ids)} pids",
            producer_id_filters=producer_ids,
        )
    if version >= 1:
        for duration in (-1, -5, 0, 3_600_000, 2**62):
            player.ask(
                "ListTransactions",
                version,
                f"duration {duration}",
                duration_filter=duration,
                producer_id_filters=pids,
            )


def find_coordinator(player: FramePlayer) -> None:
    """Every version and type of key."""
    player.await_coordinator(player.full_name())
    for version in range(7):
        keys: dict[str, Any] = {
            "key": player.full_name(),
            "coordinator_keys": [player.full_name(), "", player.full_name("b")],
        }
        for key_type in (1, 2, 3, -1) if version else ():
            player.ask("FindCoordinator", version, f"type {key_type}", key_type=key_type, **keys)
        if version >= 4:
            player.ask("FindCoordinator", version, "no keys", key_type=1, coordinator_keys=[])
        if version == 6:
            for key in ("a:b:0", f"{player.full_name()}:AAAAAAAAAAAAAAAAAAAAAQ:x", "::"):
                player.ask(
                    "FindCoordinator",
                    version,
                    f"share {key[-4:]}",
                    key_type=2,
                    coordinator_keys=[key],
                )
        elif version in (1, 2, 3):
            player.ask("FindCoordinator", version, "empty key", key_type=1, key="")


def lasting_prepare(player: FramePlayer) -> None:
    """A transaction that stays prepared because of a marker of a higher epoch. Requests are
    answered that they have to wait.
    """
    topic = player.create_topic()
    for version, end in ((11, 4), (12, 5)) if player.level else ((11, 4),):
        for committed in (True, False):
            txn = StoryTxn(player, f"id-{version}-{committed}")
            if version == 11:
                txn.add("add", topic, 3)
            txn.send("send", topic, version, 0)
            marker(player, topic, "higher epoch", txn.pid, txn.epoch + 5)
            txn.end("end", end, committed=committed, epoch=txn.epoch)
            txn.player.await_state(txn.id, "PrepareCommit" if committed else "PrepareAbort")
            txn.describe("prepared")
            for is_committed_again in (True, False):
                for api in (3, 4, 5):
                    txn.end(f"again {is_committed_again}", api, committed=is_committed_again)
                    txn.end(
                        f"again {is_committed_again} one less",
                        api,
                        committed=is_committed_again,
                        epoch=txn.epoch - 1,
                    )
                    txn.end(
                        f"again {is_committed_again} wrong pid",
                        api,
                        committed=is_committed_again,
                        producer_id=txn.pid + 100_000,
                    )
            txn.add("add", topic, 3)
            txn.add("add wrong pid", topic, 3, producer_id=txn.pid + 100_000)
            txn.add("add wrong epoch", topic, 3, epoch=txn.epoch + 1)
            txn.add("verify", topic, 4, is_verification=True)
            txn.add("verify wrong epoch", topic, 4, epoch=txn.epoch + 1, is_verification=True)
            txn.init("init", 4)
            txn.init("init expected", 4, expected=(txn.pid, txn.epoch))
            txn.init("init other", 4, expected=(txn.pid + 100_000, 0))
            other_topic = player.create_topic(f"other-{version}-{committed}")
            for api in (10, 11, 12, 13) if player.level else (10, 11):
                txn.send("elsewhere", other_topic, api, 0)
                txn.send("here", topic, api, 1)
                txn.send("here, marker's epoch", topic, api, 0, epoch=txn.epoch + 5)
            producers_of(player, topic, "prepared")


AT_EVERY_LEVEL: Final[tuple[Story, ...]] = (find_coordinator, lasting_prepare, describing)
STORIES: Final = tuple(
    (story, transaction_version) for transaction_version in (0, 1, 2) for story in AT_EVERY_LEVEL
)
"""Stories with the levels of ``transaction.version`` at which they are played."""
