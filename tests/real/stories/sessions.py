"""Fetch sessions (KIP-227): requests of a session, the partitions in its answers, and when there is
none.
"""

from __future__ import annotations

from typing import Any, Final

from txnsim.errors import ErrorCode
from txnsim_lab.conformance._book.frame_player import (
    UNUSED_TOPIC_ID,
    FramePlayer,
    Story,
    Topic,
    fetch,
    produce,
    records,
)

VERSIONS: Final = (7, 12, 13, 18)
SLOTS: Final = 16
"""Sessions that both brokers may keep: two in each of eight parts of the cache."""


class SessionReader:
    """A reader with a fetch session, if the broker grants a session."""

    def __init__(self, player: FramePlayer, version: int) -> None:
        self.session_id = 0
        self.epoch = 0
        self._player = player
        self._version = version

    def ask(self, note: str, *requests: dict[str, Any], **more_fields: Any) -> Any:
        """Send the next fetch of the session; the first is a full one."""
        answer = self.ask_out_of_turn(note, *requests, **more_fields)
        if answer.error_code is ErrorCode.none:
            self.session_id, self.epoch = answer.session_id, self.epoch + 1
        return answer

    def ask_out_of_turn(self, note: str, *requests: dict[str, Any], **more_fields: Any) -> Any:
        """Send a fetch, and go on as if it had not been sent."""
        values = {"session_id": self.session_id, "session_epoch": self.epoch}
        version = more_fields.pop("version", self._version)
        return self._player.ask(
            "Fetch", version, note, **values | merge_requests(*requests) | more_fields
        )

    def close(self) -> None:
        self.ask_out_of_turn("closes", session_epoch=-1)


def merge_requests(*requests: dict[str, Any]) -> dict[str, Any]:
    """A Fetch for the partitions of several requests, in this order."""
    combined = {**fetch(("", UNUSED_TOPIC_ID)), "topics": []}
    for request in requests:
        combined["topics"] = [*combined["topics"], *request["topics"]]
    return combined


def forget_partitions(topic: Topic, *partitions: int) -> dict[str, Any]:
    """The part of a request that forgets partitions."""
    name, topic_id = topic
    return {
        "forgotten_topics_data": [
            {"topic": name, "topic_id": topic_id, "partitions": list(partitions)}
        ]
    }


def session_life(player: FramePlayer) -> None:
    """A fetch session is opened, changed and closed; requests with wrong epochs and ids."""
    topic = player.create_topic(partitions=3)
    missing: Topic = (player.full_name("missing"), UNUSED_TOPIC_ID)
    player.ask_unrecorded("Produce", 8, **produce(topic, records("a"), 8))
    for version in VERSIONS:
        reader = SessionReader(player, version)
        reader.ask("opens", fetch(topic), fetch(missing), fetch(topic, partition=1))
        reader.ask("again", fetch(missing, partition=3))
        reader.ask("moved on", fetch(topic, 1))
        reader.ask("no news")
        reader.ask("one more", fetch(topic, partition=2))
        reader.ask("forgets the missing", **forget_partitions(missing, 0, 3, 7))
        reader.ask("no news at all")
        reader.ask("listed and forgotten", fetch(topic), **forget_partitions(topic, 0))
        reader.ask("listed again", fetch(topic))
        for epoch in (0 - 5, 1, reader.epoch - 1, reader.epoch + 1, 2**31 - 1):
            reader.ask_out_of_turn(f"epoch {epoch}", session_epoch=epoch)
        for session_id in (0, -5, 2**31 - 9):
            reader.ask_out_of_turn(f"session {session_id}", fetch(topic), session_id=session_id)
        for session_id in (-(2**28), -(2**31), 2**31 - 1):
            for epoch in (-1, 0, 3):
                note = f"session {session_id} epoch {epoch}"
                reader.ask_out_of_turn(
                    note, fetch(topic), session_id=session_id, session_epoch=epoch
                )
        reader.ask_out_of_turn("isolation 2", isolation_level=2)
        reader.ask_out_of_turn("that was an epoch")
        reader.epoch += 1
        reader.ask("goes on")
        reader.ask("forgets everything", **forget_partitions(topic, 0, 1, 2))
        reader.ask_out_of_turn("is over")
        second_reader = SessionReader(player, version)
        second_reader.ask("opens once more", fetch(topic))
        second_reader.ask_out_of_turn("closes and opens another", fetch(topic, 1), session_epoch=0)
        second_reader.ask_out_of_turn("the first is closed")
        empty_reader = SessionReader(player, version)
        empty_reader.ask("opens with nothing")
        empty_reader.ask("forgets nothing, and everything")
        empty_reader.ask_out_of_turn("was closed")
        last_reader = SessionReader(player, version)
        last_reader.ask("opens", fetch(topic))
        last_reader.ask(
            "everything listed and forgotten", fetch(topic), **forget_partitions(topic, 0, 1, 2)
        )


def session_topics(player: FramePlayer) -> None:
    """Sessions with topics by name and by id, and with topics that are deleted and created
    again.
    """
    for version in (12, 13, 18):
        topic = player.create_topic(f"t{version}")
        steady = player.create_topic(f"steady{version}")
        reader = SessionReader(player, version)
        reader.ask("opens", fetch(topic), fetch(steady))
        reader.ask_out_of_turn("the other naming", version=25 - version if version < 18 else 12)
        reader.ask_out_of_turn("the other naming of nothing", version=4)
        player.ask_unrecorded("DeleteTopics", 5, topic_names=[topic[0]], timeout=5000)
        player.ask_until(
            lambda answer: answer.topics[0].error_code is ErrorCode.unknown_topic_or_partition,
            "Metadata",
            12,
            topics=[{"name": topic[0]}],
            allow_auto_topic_creation=False,
        )
        reader.ask("deleted")
        reader.ask("deleted, and listed", fetch(topic))
        new_topic = player.create_topic(f"t{version}")
        reader.ask("another of that name")
        reader.ask("another of that name, listed by the old id", fetch(topic))
        reader.ask("both", fetch(new_topic))
        reader.ask("the old one forgotten", **forget_partitions(topic, 0))
        reader.ask("no news")
        reader.close()


def session_cache(player: FramePlayer) -> None:
    """More readers than slots: the last reader gets no session."""
    topic = player.create_topic()
    readers = [SessionReader(player, 12 + slot_index % 2) for slot_index in range(SLOTS)]
    for reader_index, reader in enumerate(readers):
        reader.ask(f"reader {reader_index} opens", fetch(topic))
    for reader_index in range(9):
        late_reader = SessionReader(player, 12)
        late_reader.ask(f"one too many, {reader_index}", fetch(topic), fetch(topic, partition=7))
    readers[0].close()
    readers[0] = SessionReader(player, 13)
    session_readers = [SessionReader(player, 13) for _ in range(8)]
    for reader in session_readers:
        reader.ask_out_of_turn("one of eight finds the free slot", fetch(topic), session_epoch=-1)
    has_session = []
    for reader in session_readers:
        answer = player.ask_unrecorded("Fetch", 13, **fetch(topic), session_id=0, session_epoch=0)
        reader.session_id = answer.session_id
        has_session.append(answer.session_id > 0)
    player.note("sessions found", sorted(has_session))
    for reader in (*readers, *session_readers):
        reader.close()


STORIES: Final[tuple[Story, ...]] = (
    session_life,
    session_topics,
    session_cache,
)
