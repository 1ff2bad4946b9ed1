"""The records that a ``read_committed`` reader gets, and its position."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from txnsim_lab.exam._application import READ_COMMITTED, Application, run_together
from txnsim_lab.exam.fixture_topics import (
    FIXTURE_TOPICS,
    FixtureTopic,
    short_values,
    write_fixture,
    write_overlapping,
)
from txnsim_lab.exam.situation import PlaySituation, Situation, situation

FIRST_RECORD_PATIENCE_MS: Final = 10_000
METADATA_PAUSE_S: Final = 0.5
_REVERSE_ABORTED_LIST: Final = {"do": "rewrite", "field": "aborted_transactions", "how": "reverse"}


@situation("reads-around-aborted", "readers", "Transactions of two producers lie through each"
           " other; one is aborted: does the reader get the others, and in order?")  # fmt: skip
async def around_aborted(app: Application) -> None:
    """A fetch brings a list of aborted transactions, each with its producer and first offset. A
    reader leaves out the records of these producers up to their abort markers (KIP-98).
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
    await app.must_transact("lost-5", producer="q", end="abort")
    await app.must_transact("d-1", producer="q")
    await app.consumer()
    app.expect(await app.poll(4), ["a-1", "b-1", "c-1", "d-1"], "the reader gets")


@situation("stops-at-open", "readers", "A transaction is open: does the reader stop before it, and"
           " go on when it has ended?")  # fmt: skip
async def stops_at_open(app: Application) -> None:
    """A ``read_committed`` reader gets nothing from the last stable offset on (KIP-98)."""
    await app.must_init("p", transactional_id="shop")
    await app.must_init("q", transactional_id="till")
    await app.must_transact("a-1", producer="p")
    open_entry = await app.open("b-1", producer="p")
    await app.must_transact("c-1", producer="q")
    await app.consumer()
    app.expect(await app.poll(1), ["a-1"], "before the open transaction the reader gets")
    await app.must_end(open_entry, "p", "commit")
    app.expect(await app.poll(2), ["b-1", "c-1"], "behind it the reader gets")


@situation("position-behind-marker", "readers", "The last record is read, and a marker is behind"
           " it: does the reader stand at the end?")  # fmt: skip
async def position_behind_marker(app: Application) -> None:
    """In the Java client ``position()`` skips markers."""
    await app.must_init()
    await app.must_transact("a-1")
    end_offset = await app.end_of(1)
    await app.consumer()
    app.expect(await app.poll(1, end_offset=end_offset), ["a-1"], "the reader gets")
    app.expect(app.position(1), end_offset, "the reader's position, where the log ends")


@situation("lag-is-zero", "readers", "All is read, and the reader commits where it stands: is its"
           " lag zero?", about=("spring-kafka #1587",), is_core=True)  # fmt: skip
async def lag_is_zero(app: Application) -> None:
    """The Java client's ``commitSync()`` commits the position, which is after the marker."""
    await app.must_init()
    await app.must_transact("a-1")
    end_offset = await app.end_of(1)
    await app.consumer()
    app.expect(await app.poll(1), ["a-1"], "the reader gets")
    await app.must("commit-positions", consumer="c")
    app.expect(
        await app.position_of("readers", "t", 1), end_offset, "the committed position, lag zero"
    )


@situation("commits-each-record", "readers", "The reader commits where it stands as soon as it has"
           " the last record, and not again: is its lag zero?",
           about=("librdkafka #3917",))  # fmt: skip
async def commits_each_record(app: Application) -> None:
    """An application that commits after each record must get there, too. The marker comes with the
    record, and the Java client's position is after both.
    """
    await app.must_init()
    await app.must_transact("a-1")
    end_offset = await app.end_of(1)
    await app.consumer()
    answer = await app.must("poll-first", consumer="c", timeout_ms=FIRST_RECORD_PATIENCE_MS)
    app.expect([value for _, _, value in answer.records], ["a-1"], "the reader gets")
    await app.must("commit-positions", consumer="c")
    app.expect(
        await app.position_of("readers", "t", 1), end_offset, "the committed position, lag zero"
    )


@situation("nothing-but-aborted", "readers", "A partition has aborted transactions only: does the"
           " reader get to its end, with nothing?", is_core=True)  # fmt: skip
async def nothing_but_aborted(app: Application) -> None:
    """The reader gets batches without a record for it, and its position moves on (KIP-98). A reader
    that waits for a record here waits for ever.
    """
    await app.must_init()
    for value in ("lost-1", "lost-3", "lost-5"):
        await app.must_transact(value, end="abort")
    end_offset = await app.end_of(1)
    await app.consumer()
    app.expect(await app.poll(0, end_offset=end_offset), [], "the reader gets")
    app.expect(app.position(1), end_offset, "the reader's position, where the log ends")


@situation("seek-to-marker", "readers", "A reader seeks to the offset of a marker: does it get the"
           " record behind it?")  # fmt: skip
async def seek_to_marker(app: Application) -> None:
    """A marker is no record. Committed positions are often there, and a fetch from there works."""
    await app.must_init()
    await app.must_transact("a-1")
    marker = await app.end_of(1) - 1
    await app.must_transact("b-1")
    await app.consumer()
    app.expect(await app.poll(2), ["a-1", "b-1"], "the reader gets")
    await app.must("seek", consumer="c", topic=app.name("t"), partition=1, offset=marker)
    app.expect(await app.poll(1), ["b-1"], "behind the marker the reader gets")


@situation("reads-across-leader-change", "readers", "A transaction is open, and its partition gets"
           " another leader: does the reader still stop before it, and go on when it ends?",
           is_core=True)  # fmt: skip
async def across_leader_change(app: Application) -> None:
    """The new leader knows the open transaction from its log. Its last stable offset may be unknown
    for a moment, and then has the same value as before.
    """
    await app.must_init("p", transactional_id="shop")
    await app.must_init("q", transactional_id="till")
    open_entry = await app.open("a-1", producer="p")
    await app.must_transact("b-1", producer="q")
    await app.consumer()
    app.expect(await app.poll(0), [], "before the move the reader gets")
    await app.move_leader(1)
    app.expect(await app.poll(0), [], "behind the move the reader gets")
    await app.must_end(open_entry, "p", "commit")
    app.expect(await app.poll(2), ["a-1", "b-1"], "in the end the reader gets")


def _second_move(*, isolation: str, moves_back: bool) -> PlaySituation:
    """A reader after a marker of a later leader; then the leader changes once more."""

    async def play(app: Application) -> None:
        """A reader's position has the leader epoch of the last batch that it got, even if that is a
        marker or was left out. With the epoch of the last record, the next leader would say that
        the log ends before the position (KIP-320).
        """
        await app.must_init("p", transactional_id="shop")
        open_entry = await app.open("a-1", producer="p")
        await app.move_leader(1)
        await app.must_end(open_entry, "p", "commit")
        await app.consumer(isolation=isolation)
        app.expect(await app.poll(1), ["a-1"], "before the second move the reader gets")
        for _ in range(2 if moves_back else 1):
            await app.move_leader(1)
            app.expect(await app.poll(0), [], "behind the move the reader gets")
        await app.must_transact("b-1", producer="p")
        app.expect(await app.poll(1), ["b-1"], "in the end the reader gets")

    return play


_MARKER_OF_A_LATER_LEADER: Final = tuple(
    situation(
        f"{'uncommitted-' if isolation == 'read_uncommitted' else ''}reads-a-later-leaders-marker"
        f"{'-there-and-back' if and_back else ''}",
        "readers",
        "The leader changes while a transaction is open, a reader reads the record and the marker,"
        f" and the leader changes again{', and once more' if and_back else ''}: does the reader"
        f" ({isolation}) go on, without an error?",
        about=("franz-go #1530",),
        is_core=isolation == READ_COMMITTED and not and_back,
    )(_second_move(isolation=isolation, moves_back=and_back))
    for isolation in (READ_COMMITTED, "read_uncommitted")
    for and_back in (False, True)
)


@situation("end-is-stable", "readers", "A transaction is open: is the end, as the library tells it"
           " to a reader, where that reader can get to?",
           about=("klag-exporter #104",), is_core=True)  # fmt: skip
async def end_is_stable(app: Application) -> None:
    """The Java client's ``endOffsets()`` of a ``read_committed`` reader is the offset that it can
    reach: the last stable offset.
    """
    await app.must_init("p", transactional_id="shop")
    await app.must_init("q", transactional_id="till")
    await app.must_transact("a-1", producer="q")
    stable_offset = await app.end_of(1)
    open_entry = await app.open("b-1", producer="p")
    await app.must_transact("c-1", producer="q")
    await app.consumer()
    app.expect(await app.poll(1), ["a-1"], "the reader gets")
    app.expect((await app.ends()).get(1), stable_offset, "the end that it is told")
    app.expect(app.position(1), stable_offset, "its position, so that its lag is zero")
    await app.must_end(open_entry, "p", "commit")
    app.expect(await app.poll(2), ["b-1", "c-1"], "in the end the reader gets")


@situation("end-is-stable-across-leader-change", "readers", "A transaction is open, and its"
           " partition gets another leader, which does not know its last stable offset for a"
           " moment: does the library tell the same end again?")  # fmt: skip
async def end_across_leader_change(app: Application) -> None:
    """A new leader answers OFFSET_NOT_AVAILABLE until it knows its high watermark (KIP-207). The
    Java client asks again.
    """
    await app.must_init("p", transactional_id="shop")
    await app.must_init("q", transactional_id="till")
    await app.must_transact("a-1", producer="q")
    stable_offset = await app.end_of(1)
    open_entry = await app.open("b-1", producer="p")
    await app.consumer()
    app.expect(await app.poll(1), ["a-1"], "the reader gets")
    app.expect((await app.ends()).get(1), stable_offset, "the end before the move")
    await app.move_leader(1)
    app.expect(await app.poll_once(), [], "while it is open the reader gets")
    error_action = {"do": "error", "error": "OFFSET_NOT_AVAILABLE"}
    error_rule = await app.arm(
        point="client.request", api="ListOffsets", topic="t", partition=1, action=error_action
    )

    async def know() -> None:
        await asyncio.sleep(METADATA_PAUSE_S)
        await app.disarm(error_rule)

    answered_ends, _ = await run_together(app.ends(), know())
    app.expect(answered_ends.get(1), stable_offset, "the end behind the move")
    await app.must_end(open_entry, "p", "commit")
    answered_end = await app.end_of(1)
    app.expect((await app.ends()).get(1), answered_end, "the end when the transaction has ended")


@situation("end-of-a-former-leader", "readers", "The application asks for the end, and the"
           " broker that is asked leads the partition no more: is the leader found?")  # fmt: skip
async def former_leader(app: Application) -> None:
    """NOT_LEADER_OR_FOLLOWER means that the metadata is old. The Java client fetches new metadata,
    and then the end offset from the new leader.
    """
    await app.must_init()
    await app.must_transact("a-1")
    await app.consumer()
    app.expect(await app.poll(1), ["a-1"], "the reader gets")
    former_leader_id = {"do": "error", "error": "NOT_LEADER_OR_FOLLOWER"}
    partition_fields: dict[str, Any] = {"topic": "t", "partition": 1}
    metadata_rule = await app.requests("Metadata")
    await app.arm(
        point="client.request",
        api="ListOffsets",
        until=metadata_rule.id,
        action=former_leader_id,
        **partition_fields,
    )
    app.expect((await app.ends()).get(1), await app.end_of(1), "the end that it is told")


def _read_fixture(fixture: FixtureTopic, **fault_fields: Any) -> PlaySituation:
    """Reads a fixture topic from its beginning.

    Args:
        fixture: The fixture topic.
        fault_fields: A fault on the responses to the reader.
    """

    async def play(app: Application) -> None:
        """A ``read_committed`` reader gets each committed record once, in order, and no other
        (KIP-98). In the Java client its position is after all of them, markers included.
        """
        topic = await write_fixture(app.target, fixture)
        if fault_fields:
            await app.arm(point="client.response", **fault_fields)
        await app.consumer(topic=fixture.expected.topic, partitions=1)
        values, stable_offset = fixture.expected.values, fixture.expected.stable
        values_read = short_values(
            await app.poll(len(values), end_offset=stable_offset, partition=0)
        )
        app.expect(values_read, values, f"the reader of {topic} gets")
        if app.tells_positions:
            app.expect(app.position(0), stable_offset, "its position in the end")

    return play


def _fixture_situation(fixture: FixtureTopic, *, is_core: bool = False) -> Situation:
    name = f"reads-{fixture.expected.topic}"
    asks = f"{fixture.expected.about} Does the reader get what is committed, and to its end?"
    return situation(name, "readers", asks, is_core=is_core)(_read_fixture(fixture))


@situation("reads-unsorted-list-of-one", "readers", "The list of one producer's aborted"
           " transactions comes with the later ones first: are all of them left out?",
           about=("franz-go b9b50cce",))  # fmt: skip
async def unsorted_list_of_one(app: Application) -> None:
    """Kafka sorts by the ends of transactions, and promises no order. The Java client puts the list
    into a queue by first offset.
    """
    await app.must_init()
    for value in ("lost-1", "a-1", "lost-3", "b-1"):
        await app.must_transact(value, end="abort" if value.startswith("lost") else "commit")
    await app.arm(point="client.response", api="Fetch", action=_REVERSE_ABORTED_LIST)
    await app.consumer()
    app.expect(await app.poll(2), ["a-1", "b-1"], "the reader gets")


SITUATIONS: Final[tuple[Situation, ...]] = (
    around_aborted,
    stops_at_open,
    position_behind_marker,
    lag_is_zero,
    commits_each_record,
    nothing_but_aborted,
    seek_to_marker,
    across_leader_change,
    end_across_leader_change,
    former_leader,
    unsorted_list_of_one,
    end_is_stable,
    *_MARKER_OF_A_LATER_LEADER,
    *(
        _fixture_situation(fixture, is_core=fixture.expected.topic in ("overlapping", "compacted"))
        for fixture in FIXTURE_TOPICS
    ),
    situation("reads-unsorted-list", "readers", "The list of aborted transactions comes in another"
              " order than that of offsets: are all of them left out?")(
                  _read_fixture(write_overlapping, api="Fetch", action=_REVERSE_ABORTED_LIST)),
)  # fmt: skip
