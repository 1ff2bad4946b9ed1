"""Transactions: in order and with every mistake, at each level of ``transaction.version``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tests.real.stories.player import Player, Topic, fetch, produce, records

Story = Callable[[Player], None]


class Txn:
    """One transactional id on the stage, with short calls."""

    def __init__(self, player: Player, name: str = "id", *, timeout_ms: int = 60_000) -> None:
        self.player = player
        self.id = player.name(name)
        self.timeout_ms = timeout_ms
        answer = player.producer(self.id, timeout_ms)
        self.pid, self.epoch = answer.producer_id, answer.producer_epoch

    def init(self, note: str, version: int = 4, *, expected: tuple[int, int] = (-1, -1)) -> Any:
        return self.player.ask("InitProducerId", version, note, transactional_id=self.id,
                               transaction_timeout=self.timeout_ms, producer_id=expected[0],
                               producer_epoch=expected[1])

    def reinit(self, note: str, version: int = 4, *, expected: tuple[int, int] = (-1, -1)) -> Any:
        """InitProducerId until the coordinator has finished what it does; take the identity."""
        answer = self.player.settled(
            "InitProducerId", version, note, transactional_id=self.id,
            transaction_timeout=self.timeout_ms, producer_id=expected[0], producer_epoch=expected[1])
        if answer.error_code == 0:
            self.pid, self.epoch = answer.producer_id, answer.producer_epoch
        return answer

    def add(self, note: str, topic: Topic, version: int = 3, *partitions: int, pid: int | None = None,
            epoch: int | None = None, verify: bool = False) -> Any:
        return self.player.ask("AddPartitionsToTxn", version, note, **add_values(
            self.id, self.pid if pid is None else pid, self.epoch if epoch is None else epoch,
            [(topic[0], list(partitions or (0,)))], verify=verify))

    def quiet_add(self, topic: Topic, version: int = 3) -> None:
        self.player.quiet("AddPartitionsToTxn", version, **add_values(
            self.id, self.pid, self.epoch, [(topic[0], [0])]))

    def send(self, note: str, topic: Topic, version: int, sequence: int, *, pid: int | None = None,
             epoch: int | None = None, partition: int = 0, transactional: bool = True) -> Any:
        batch = records("x", producer_id=self.pid if pid is None else pid,
                        producer_epoch=self.epoch if epoch is None else epoch,
                        base_sequence=sequence, transactional=transactional)
        return self.player.ask("Produce", version, note, **produce(
            topic, batch, version, partition=partition, transactional_id=self.id))

    def end(self, note: str, version: int, *, committed: bool = True, pid: int | None = None,
            epoch: int | None = None) -> Any:
        answer = self.player.ask(
            "EndTxn", version, note, transactional_id=self.id,
            producer_id=self.pid if pid is None else pid,
            producer_epoch=self.epoch if epoch is None else epoch, committed=committed)
        if version >= 5 and answer.error_code == 0:
            self.pid, self.epoch = answer.producer_id, answer.producer_epoch
        return answer

    def describe(self, note: str) -> None:
        self.player.ask("DescribeTransactions", 0, note, transactional_ids=[self.id])

    def completed(self, state: str) -> None:
        self.player.until_state(self.id, state)
        self.describe(state)


def add_values(transactional_id: str, pid: int, epoch: int, topics: list[tuple[str, list[int]]], *,
               verify: bool = False) -> dict[str, Any]:
    """Values of AddPartitionsToTxn in both shapes."""
    wanted = [{"name": name, "partitions": partitions} for name, partitions in topics]
    return {
        "v3_and_below_transactional_id": transactional_id,
        "v3_and_below_producer_id": pid,
        "v3_and_below_producer_epoch": epoch,
        "v3_and_below_topics": wanted,
        "transactions": [{"transactional_id": transactional_id, "producer_id": pid,
                          "producer_epoch": epoch, "verify_only": verify, "topics": wanted}],
    }


def producers_of(player: Player, topic: Topic, note: str = "") -> None:
    """The producer state of the topic's first partition."""
    player.ask("DescribeProducers", 0, note, topics=[{"name": topic[0], "partition_indexes": [0]}])


def both_views(player: Player, topic: Topic, note: str) -> None:
    """What either isolation level reads."""
    for isolation in (0, 1):
        player.ask("Fetch", 12, f"{note}, isolation {isolation}", **fetch(topic, isolation=isolation))
        player.ask("ListOffsets", 7, f"{note}, isolation {isolation}", replica_id=-1,
                   isolation_level=isolation,
                   topics=[{"name": topic[0], "partitions": [{"partition_index": 0, "timestamp": -1}]}])


def find_coordinator(player: Player) -> None:
    """Every version and type of key."""
    player.coordinator(player.name())
    for version in range(7):
        keys: dict[str, Any] = {"key": player.name(), "coordinator_keys": [player.name(), "", player.name("b")]}
        for kind in (1, 2, 3, -1) if version else ():
            player.ask("FindCoordinator", version, f"type {kind}", key_type=kind, **keys)
        if version >= 4:
            player.ask("FindCoordinator", version, "no keys", key_type=1, coordinator_keys=[])
        if version == 6:
            for key in ("a:b:0", f"{player.name()}:AAAAAAAAAAAAAAAAAAAAAQ:x", "::"):
                player.ask("FindCoordinator", version, f"share {key[-4:]}", key_type=2, coordinator_keys=[key])
        elif version in (1, 2, 3):
            player.ask("FindCoordinator", version, "empty key", key_type=1, key="")


def init_producer_id(player: Player) -> None:
    """Every version, without and with a transactional id, expected identities, timeouts."""
    player.coordinator(player.name())
    player.producer()
    def init(note: str, version: int, transactional_id: str | None, *, timeout: int = 60_000,
             pid: int = -1, epoch: int = -1) -> Any:
        return player.settled("InitProducerId", version, note, transactional_id=transactional_id,
                              transaction_timeout=timeout, producer_id=pid, producer_epoch=epoch)

    for version in range(6):
        init("idempotent", version, None)
        init("idempotent, no timeout", version, None, timeout=0)
        init("empty id", version, "")
        for timeout in (0, -1, 900_000, 900_001, 2**31 - 1):
            init(f"timeout {timeout}", version, player.name(f"v{version}-{timeout}"), timeout=timeout)
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
        player.ask("AddPartitionsToTxn", version, "internal, unknown and known", **add_values(
            txn.id, txn.pid, txn.epoch,
            [("__consumer_offsets", [0]), (missing[0], [0]), (topic[0], [0])]))
        txn.add("wrong pid", topic, version, pid=txn.pid + 100_000)
        txn.add("lower epoch", topic, version, epoch=-1)
        txn.add("higher epoch", topic, version, epoch=5)
        for name in ("", player.name("nobody")):
            player.ask("AddPartitionsToTxn", version, f"id {name[-6:]!r}", **add_values(
                name, txn.pid, txn.epoch, [(topic[0], [0])]))
        player.ask("AddPartitionsToTxn", version, "no topics", **add_values(txn.id, txn.pid, txn.epoch, []))
        txn.describe("after no topics")
        txn.add("one", topic, version)
        txn.add("again", topic, version)
        txn.describe("ongoing")
        txn.add("both", topic, version, 1, 0)
        txn.add("same twice", topic, version, 1, 1)
        player.ask("AddPartitionsToTxn", version, "same topic twice", **add_values(
            txn.id, txn.pid, txn.epoch, [(topic[0], [0]), (topic[0], [1])]))
        txn.describe("ongoing")
        if version >= 4:
            txn.add("verify", topic, version, verify=True)
            txn.add("verify unknown partition", topic, version, 0, 9, verify=True)
            txn.add("verify wrong pid", topic, version, pid=txn.pid + 100_000, verify=True)
            txn.add("verify wrong epoch", topic, version, epoch=5, verify=True)
            fresh = Txn(player, f"fresh-{version}")
            fresh.add("verify what was never added", topic, version, verify=True)
            for name in ("", player.name("nobody")):
                player.ask("AddPartitionsToTxn", version, f"verify id {name[-6:]!r}", **add_values(
                    name, txn.pid, txn.epoch, [(topic[0], [0])], verify=True))
            one = add_values(txn.id, txn.pid, txn.epoch, [(topic[0], [0])], verify=True)["transactions"]
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
            player.ask("EndTxn", end, f"id {name[-6:]!r}", transactional_id=name, producer_id=txn.pid,
                       producer_epoch=txn.epoch, committed=True)
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
    if player.level == 0:
        return
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
            player.ask("EndTxn", 5, f"id {name[-6:]!r}", transactional_id=name, producer_id=txn.pid,
                       producer_epoch=txn.epoch, committed=True)
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
    topic = player.topic()
    for version, end in ((11, 4), (12, 5)) if player.level else ((11, 4),):
        for then in ("abort", "commit", "produce", "init"):
            txn = Txn(player, f"{then}-{version}", timeout_ms=150)
            if version == 11:
                txn.add("add", topic, 3)
            txn.send("send", topic, version, 0)
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


def lasting_prepare(player: Player) -> None:
    """PrepareX made to last by a marker of a higher epoch: everybody is told to wait."""
    topic = player.topic()
    for version, end in ((11, 4), (12, 5)) if player.level else ((11, 4),):
        for committed in (True, False):
            txn = Txn(player, f"id-{version}-{committed}")
            if version == 11:
                txn.add("add", topic, 3)
            txn.send("send", topic, version, 0)
            marker(player, topic, "higher epoch", txn.pid, txn.epoch + 5)
            txn.end("end", end, committed=committed, epoch=txn.epoch)
            txn.player.until_state(txn.id, "PrepareCommit" if committed else "PrepareAbort")
            txn.describe("prepared")
            for again in (True, False):
                for api in (3, 4, 5):
                    txn.end(f"again {again}", api, committed=again)
                    txn.end(f"again {again} one less", api, committed=again, epoch=txn.epoch - 1)
                    txn.end(f"again {again} wrong pid", api, committed=again, pid=txn.pid + 100_000)
            txn.add("add", topic, 3)
            txn.add("add wrong pid", topic, 3, pid=txn.pid + 100_000)
            txn.add("add wrong epoch", topic, 3, epoch=txn.epoch + 1)
            txn.add("verify", topic, 4, verify=True)
            txn.add("verify wrong epoch", topic, 4, epoch=txn.epoch + 1, verify=True)
            txn.init("init", 4)
            txn.init("init expected", 4, expected=(txn.pid, txn.epoch))
            txn.init("init other", 4, expected=(txn.pid + 100_000, 0))
            other = player.topic(f"other-{version}-{committed}")
            for api in (10, 11, 12, 13) if player.level else (10, 11):
                txn.send("elsewhere", other, api, 0)
                txn.send("here", topic, api, 1)
                txn.send("here, marker's epoch", topic, api, 0, epoch=txn.epoch + 5)
            producers_of(player, topic, "prepared")


def marker(player: Player, topic: Topic, note: str, pid: int, epoch: int, *, committed: bool = True,
           coordinator_epoch: int = 0, version: int = 1, transaction_version: int = 0,
           partitions: tuple[int, ...] = (0,)) -> None:
    """Write a marker as an operator does."""
    player.ask("WriteTxnMarkers", version, f"{note} tv{transaction_version}", markers=[{
        "producer_id": pid, "producer_epoch": epoch, "transaction_result": committed,
        "coordinator_epoch": coordinator_epoch, "transaction_version": transaction_version,
        "topics": [{"name": topic[0], "partition_indexes": list(partitions)}]}])


def markers(player: Player) -> None:
    """WriteTxnMarkers v1 and v2: epochs, coordinator epochs, repeats, who is not there."""
    missing: Topic = (player.name("missing"), None)
    for version, level in ((1, 0), (2, 0), (2, 1), (2, 2), (2, 3), (2, -1)):
        topic = player.topic(f"t{version}-{level}", partitions=2)
        again: dict[str, Any] = {"version": version, "transaction_version": level}
        txn = Txn(player, f"id-{version}-{level}")
        txn.reinit("bump")
        txn.reinit("bump")
        txn.add("add", topic, 3)
        txn.send("open", topic, 11, 0)
        marker(player, topic, "lower epoch", txn.pid, txn.epoch - 1, **again)
        marker(player, topic, "same epoch", txn.pid, txn.epoch, coordinator_epoch=5, **again)
        producers_of(player, topic, "after same epoch")
        marker(player, topic, "same epoch again", txn.pid, txn.epoch, coordinator_epoch=5, **again)
        marker(player, topic, "higher epoch", txn.pid, txn.epoch + 1, coordinator_epoch=5, committed=False, **again)
        marker(player, topic, "higher epoch again", txn.pid, txn.epoch + 1, coordinator_epoch=5, **again)
        marker(player, topic, "lower epoch", txn.pid, txn.epoch, coordinator_epoch=5, **again)
        marker(player, topic, "older coordinator", txn.pid, txn.epoch + 2, coordinator_epoch=4, **again)
        marker(player, topic, "newer coordinator", txn.pid, txn.epoch + 2, coordinator_epoch=6, **again)
        marker(player, topic, "coordinator -1", txn.pid, txn.epoch + 3, coordinator_epoch=-1, **again)
        marker(player, topic, "epoch -1", txn.pid, -1, **again)
        marker(player, topic, "unknown producer", txn.pid + 100_000, 3, coordinator_epoch=9, **again)
        marker(player, topic, "unknown producer, epoch -1", txn.pid + 100_001, -1, **again)
        marker(player, topic, "negative producer", -1, 0, **again)
        marker(player, topic, "unknown producer, coordinator -1", txn.pid + 100_002, 0, coordinator_epoch=-1, **again)
        marker(player, topic, "top epoch", txn.pid, 32767, coordinator_epoch=9, **again)
        marker(player, topic, "top epoch again", txn.pid, 32767, coordinator_epoch=9, **again)
        marker(player, missing, "unknown topic", txn.pid, 3, **again)
        marker(player, topic, "unknown partition", txn.pid, 32767, coordinator_epoch=9, partitions=(0, 9, 1), **again)
        marker(player, topic, "no partitions", txn.pid, 3, partitions=(), **again)
        one: dict[str, Any] = {"producer_id": txn.pid + 100_005, "producer_epoch": 0, "transaction_result": True,
               "coordinator_epoch": 0, "transaction_version": level,
               "topics": [{"name": topic[0], "partition_indexes": [0]}]}
        other: dict[str, Any] = {**one, "topics": [{"name": topic[0], "partition_indexes": [1]}]}
        player.ask("WriteTxnMarkers", version, "merged", markers=[one, other])
        player.ask("WriteTxnMarkers", version, "same twice", markers=[one, one])
        player.ask("WriteTxnMarkers", version, "two producers", markers=[one, {**one, "producer_id": txn.pid + 100_006}])
        player.ask("WriteTxnMarkers", version, "none", markers=[])
        producers_of(player, topic, "afterwards")
        player.ask("Fetch", 12, "markers", **fetch(topic, isolation=1))
        txn.end("the coordinator's own", 4)


def overflow(player: Player) -> None:
    """Epochs up to 32766 are a long way on foot; a marker brings the partition there at once."""
    topic = player.topic()
    pid = player.producer().producer_id
    marker(player, topic, "32766", pid, 32766)
    for version in (11,):
        for epoch in (32765, 32766, 32767):
            batch = records("x", producer_id=pid, producer_epoch=epoch, base_sequence=0)
            player.ask("Produce", version, f"epoch {epoch}", **produce(topic, batch, version))
    producers_of(player, topic)
    txn = Txn(player)
    txn.init("expected 32766", 4, expected=(txn.pid, 32766))
    txn.init("expected 32767", 4, expected=(txn.pid, 32767))
    txn.end("32766", 5, epoch=32766)
    txn.end("32767", 5, epoch=32767)
    txn.end("-1", 5, epoch=-1)


def describing(player: Player) -> None:
    """DescribeProducers, DescribeTransactions and ListTransactions with their filters."""
    topic = player.topic(partitions=2)
    for name, partitions in ((topic[0], [0, 1, 7, -1]), (player.name("missing"), [0]), ("a b", [0]), ("", [0]), (topic[0], [])):
        player.ask("DescribeProducers", 0, f"{name[-8:]!r} {partitions}", topics=[{"name": name, "partition_indexes": partitions}])
    player.ask("DescribeProducers", 0, "same twice", topics=[
        {"name": topic[0], "partition_indexes": [0, 0]}, {"name": topic[0], "partition_indexes": [1]}])
    player.ask("DescribeProducers", 0, "none", topics=[])
    idle = Txn(player, "idle")
    txn = Txn(player, "open")
    txn.add("add", topic, 3, 0, 1)
    done = Txn(player, "done")
    done.quiet_add(topic)
    done.end("commit", 3)
    done.completed("CompleteCommit")
    player.ask("DescribeTransactions", 0, "several", transactional_ids=[idle.id, "", player.name("nobody"), txn.id, done.id])
    player.ask("DescribeTransactions", 0, "same twice", transactional_ids=[idle.id, idle.id])
    player.ask("DescribeTransactions", 0, "none", transactional_ids=[])
    pids = [idle.pid, txn.pid, done.pid]
    for version in range(3):
        for states in ([], ["Ongoing"], ["Empty", "Ongoing"], ["ongoing"], ["Nonsense"], ["Nonsense", "Empty"],
                       ["Dead"], ["PrepareEpochFence"], [""], ["Ongoing", "Ongoing"], ["CompleteCommit"]):
            player.ask("ListTransactions", version, f"states {states}", state_filters=states, producer_id_filters=pids)
        for some in ([txn.pid], [txn.pid, txn.pid + 100_000], [-1], [txn.pid + 100_000]):
            player.ask("ListTransactions", version, f"{len(some)} pids", producer_id_filters=some)
        if version >= 1:
            for duration in (-1, -5, 0, 3_600_000, 2**62):
                player.ask("ListTransactions", version, f"duration {duration}", duration_filter=duration, producer_id_filters=pids)
        if version >= 2:
            for pattern in (None, "", txn.id, ".*-open", "open", "(?i).*-OPEN", "(", "a{2", ".*(?=x)", "(.)\\1", ".*?", "*", "x*+"):
                player.ask("ListTransactions", version, f"pattern {(pattern or '')[-8:]!r}", transactional_id_pattern=pattern, producer_id_filters=pids)
    txn.end("abort", 3, committed=False)


def v2_requests_at_level_0(player: Player) -> None:
    """Transactions v2 spoken to a cluster at level 0."""
    if player.level != 0:
        return
    topic = player.topic()
    txn = Txn(player, "produce")
    txn.send("implicit add", topic, 12, 0)
    txn.describe("afterwards")
    txn = Txn(player, "end")
    txn.add("add", topic, 3)
    txn.send("send", topic, 11, 0)
    txn.end("end", 5)
    txn.describe("afterwards")


STORIES: Final[tuple[Story, ...]] = (
    find_coordinator,
    init_producer_id,
    add_partitions,
    old_flow,
    new_flow,
    fence_with_expected,
    timeouts,
    lasting_prepare,
    markers,
    overflow,
    describing,
    v2_requests_at_level_0,
)
