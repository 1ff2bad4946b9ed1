"""Dead letters of share groups (KIP-1191): copies of records that a group gives up, in a topic for
them.

The share partition's leader writes one record for each offset, with headers that say where it was
and why it is there, and with key and value where the group wants copies. A letter goes to the
partition of the dead letter topic whose number is the source's modulo their count. Letters for one
broker go one request at a time. A letter that can't be written is lost; its record is archived
either way.

Kafka's counterparts: ShareGroupDLQStateManager, ShareGroupDLQRecordFetcher.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec

from txnsim.broker._share_meters import ShareMeter
from txnsim.broker.look_ahead import LookAhead
from txnsim.controller.controller import TopicToCreate
from txnsim.errors import (
    CorruptBatchError,
    ErrorCode,
    MissingExtraError,
    PeerError,
    Rejection,
    UnpacksTooLargeError,
)
from txnsim.interbroker.dead_letters import DeadLettersCommand
from txnsim.log.unpacking import payload_in_steps
from txnsim.metadata.group_configs import DeadLetterConfigs, dead_letter_configs
from txnsim.metadata.image import ClusterImage, TopicImage
from txnsim.node.peers import Peers
from txnsim.replica.replicas import Replicas
from txnsim.runtime.environment import Clock, Tasks
from txnsim.runtime.loop_turns import Pace, rest_where_due
from txnsim.runtime.tasks import Pending
from txnsim.settings import Settings
from txnsim.share.commands import DeadLetter
from txnsim.types import BrokerId, TopicPartition
from txnsim.wire.batch_header import BatchHeader, pack_batch, pack_new_batch, read_batch_header
from txnsim.wire.records import Record, encode_record, iter_records

ATTEMPTS: Final = 5
BACKOFF_MS: Final = 1_000
BACKOFF_MAX_MS: Final = 30_000
JITTER: Final = 0.2
"""Relative jitter of a pause: it is longer or shorter by up to this share (ExponentialBackoff)."""
READ_BYTES_MAX: Final = 1_048_576
"""Bytes to read from the source's log at a time."""
ENABLED: Final = "errors.deadletterqueue.group.enable"
_RETRIED: Final = frozenset({ErrorCode.not_leader_or_follower, ErrorCode.topic_already_exists})

DEVIATIONS: Final = (
    "Dead letters of one acknowledgement, or of locks that ran out together, are joined into "
    "batches; Apache Kafka joins what waits for a broker while a request is on its way there.",
)


class _CopiedRecords(msgspec.Struct, frozen=True):
    """Records that were read from the source, by offset, and the offset up to which it was
    searched.
    """

    records: Mapping[int, Record]
    last_offset: int


class DeadLetters:
    """Writes the dead letters of one broker."""

    def __init__(
        self,
        *,
        replicas: Replicas,
        peers: Peers,
        read_settings: Callable[[], Settings],
        leader_of: Callable[[TopicPartition], BrokerId | None],
        make_topic: Callable[[TopicToCreate], TopicImage | Rejection],
        clock: Clock,
        tasks: Tasks,
        draw: Callable[[float, float], float],
        meter: ShareMeter,
    ) -> None:
        """Begin without letters in flight.

        Args:
            replicas: The logs of the sources, and the image.
            peers: Sends letters to the leaders of dead letter topics.
            read_settings: Returns the broker's current settings.
            leader_of: The live broker that leads a partition.
            make_topic: Has the controller make a topic.
            clock: Stamps letters and times the pauses.
            tasks: Owns the tasks that send letters.
            draw: Draws a random number between two numbers.
            meter: Counts letters.
        """
        self._replicas = replicas
        self._peers = peers
        self._settings = read_settings
        self._leader_of = leader_of
        self._make_topic = make_topic
        self._clock = clock
        self._tasks = tasks
        self._draw = draw
        self.meter = meter
        self._request_ends: dict[BrokerId, Pending[None]] = {}
        """The end of the last request to each broker, for which the next one waits."""
        self._is_stopped = False

    def stop(self) -> None:
        """Stop retrying; the broker is gone."""
        self._is_stopped = True

    def can_send(self, group_id: str) -> bool:
        """Whether the group's dead letter topic can take letters; if not, they are lost at once."""
        configs = self._configs(group_id)
        topic = self._image.topics.get(configs.topic)
        settings = self._settings()
        if self._is_stopped or not configs.topic or configs.topic.startswith("__"):
            return False
        if topic is None and not settings.errors_deadletterqueue_auto_create_topics_enable:
            return False
        if topic is not None and topic.configs.get(ENABLED) != "true":
            return False
        return configs.topic.startswith(settings.errors_deadletterqueue_topic_name_prefix)

    async def send(
        self,
        group_id: str,
        source_partition: TopicPartition,
        letters: Sequence[DeadLetter],
        on_written: Callable[[DeadLetter], object],
        pace: Pace,
    ) -> None:
        """Write letters to their topic; retry until that can't succeed.

        Args:
            group_id: The share group.
            source_partition: The partition of their records.
            letters: The letters, by ascending offset.
            on_written: Called with each letter that is written or lost.
            pace: Gives breaks between batches.
        """
        offset, letter_index = letters[0].first_offset, 0
        while letter_index < len(letters):
            remaining_letters = letters[letter_index:]
            copied_records = _CopiedRecords({}, remaining_letters[-1].last_offset)
            if self._configs(group_id).copies_records:
                copied_records = await self._read_source_records(
                    group_id, source_partition, remaining_letters, offset, pace
                )
            encoded_letters, last_offset = await self._letter_records(
                group_id, source_partition, remaining_letters, offset, copied_records, pace
            )
            is_written = await self._write_batch(
                group_id, source_partition.partition, encoded_letters
            )
            if is_written:
                self.meter.letters_written += len(encoded_letters)
            else:
                self.meter.letters_failed += 1
            for letter in remaining_letters:
                if (letter.last_offset if is_written else letter.first_offset) > last_offset:
                    break
                on_written(letter)
                letter_index += 1
                await rest_where_due(pace, 4)
            if letter_index < len(letters):
                offset = max(last_offset + 1, letters[letter_index].first_offset)

    # Parts: what is written

    @property
    def _image(self) -> ClusterImage:
        return self._replicas.image

    def _configs(self, group_id: str) -> DeadLetterConfigs:
        return dead_letter_configs(self._image.group_configs.get(group_id))

    def _batch_bytes_max(self, group_id: str) -> int:
        topic = self._image.topics.get(self._configs(group_id).topic)
        topic_setting = None if topic is None else topic.configs.get("max.message.bytes")
        return self._settings().message_max_bytes if topic_setting is None else int(topic_setting)

    async def _letter_records(
        self,
        group_id: str,
        topic_partition: TopicPartition,
        letters: Sequence[DeadLetter],
        from_offset: int,
        copied_records: _CopiedRecords,
        pace: Pace,
    ) -> tuple[list[bytes], int]:
        """The records of a batch that the topic accepts, at least one, and the last offset that
        they cover.
        """
        bytes_max = self._batch_bytes_max(group_id)
        batch_size, last_offset = BatchHeader.SIZE, from_offset
        encoded_letters: list[bytes] = []
        for letter in letters:
            for offset in range(max(from_offset, letter.first_offset), letter.last_offset + 1):
                if encoded_letters and offset > copied_records.last_offset:
                    return encoded_letters, last_offset
                source_record = copied_records.records.get(offset)
                record = Record(
                    key=None if source_record is None else source_record.key,
                    value=None if source_record is None else source_record.value,
                    headers=_letter_headers(group_id, topic_partition, letter, offset),
                )
                encoded_letter = encode_record(
                    record, offset_delta=len(encoded_letters), timestamp_delta_ms=0
                )
                batch_size += len(encoded_letter)
                if encoded_letters and batch_size > bytes_max:
                    return encoded_letters, last_offset
                encoded_letters.append(encoded_letter)
                last_offset = offset
                await rest_where_due(pace, 2)
        return encoded_letters, last_offset

    async def _write_batch(
        self, group_id: str, partition_index: int, encoded_letters: list[bytes]
    ) -> bool:
        """Whether the batch was written; retries errors that may pass."""
        batch = pack_new_batch(encoded_letters, timestamp_ms=self._clock.now_ms())
        attempt_count = 0
        while self.can_send(group_id):
            error = await self._send_letters(group_id, partition_index, batch)
            if not error:
                return True
            attempt_count += 1
            if error not in _RETRIED or attempt_count >= ATTEMPTS:
                return False
            pause_ms = BACKOFF_MS * 2**attempt_count * self._draw(1 - JITTER, 1 + JITTER)
            await self._pause(int(min(pause_ms, BACKOFF_MAX_MS)))
        return False

    async def _send_letters(self, group_id: str, partition_index: int, batch: bytes) -> ErrorCode:
        """Send a batch to the topic's leader, after the requests that are already on their way
        there.
        """
        topic = self._image.topics.get(self._configs(group_id).topic)
        if topic is None:
            new_topic = TopicToCreate(
                name=self._configs(group_id).topic,
                configs={ENABLED: "true", "message.timestamp.type": "CreateTime"},
            )
            creation_outcome = self._make_topic(new_topic)
            if isinstance(creation_outcome, Rejection):
                return creation_outcome.error
            # It is written to once this broker knows it, too.
            return (
                ErrorCode.topic_already_exists
                if new_topic.name not in self._image.topics
                else (await self._send_letters(group_id, partition_index, batch))
            )
        topic_partition = TopicPartition(topic.name, partition_index % len(topic.partitions))
        leader = self._leader_of(topic_partition)
        if leader is None:
            return ErrorCode.not_leader_or_follower
        previous_request_end = self._request_ends.get(leader)
        request_end = self._request_ends[leader] = Pending(self._tasks)
        try:
            if previous_request_end is not None:
                await previous_request_end
            self.meter.letters_sent += 1
            reply = await self._peers.dead_letters(
                leader,
                DeadLettersCommand(
                    topic_id=topic.topic_id, topic_partition=topic_partition, batch=batch
                ),
            )
        except PeerError:
            return ErrorCode.not_leader_or_follower
        finally:
            request_end.resolve(None)
            if self._request_ends.get(leader) is request_end:
                del self._request_ends[leader]
        return ErrorCode(reply.error)

    async def _pause(self, pause_ms: int) -> None:
        pause_end: Pending[None] = Pending(self._tasks)
        self._clock.call_later(pause_ms, partial(pause_end.resolve, None))
        await pause_end

    # Parts: what is copied

    async def _read_source_records(
        self,
        group_id: str,
        source_partition: TopicPartition,
        letters: Sequence[DeadLetter],
        offset: int,
        pace: Pace,
    ) -> _CopiedRecords:
        """Read the source's records from an offset on, as many as fit into one batch of letters.

        A batch that unpacks to more than a batch of letters may hold is skipped for good; so is a
        single record that is larger.
        """
        bytes_max = self._batch_bytes_max(group_id)
        records: dict[int, Record] = {}
        last_offset = letters[-1].last_offset
        copied_bytes, read_bytes, letter_index = 0, 0, 0
        while offset <= last_offset and read_bytes < READ_BYTES_MAX:
            log = self._replicas.leader_log(source_partition)
            if isinstance(log, Rejection):
                return _CopiedRecords(records, last_offset)
            read = log.read(offset, max_bytes=1)
            if isinstance(read, Rejection) or not read.records:
                return _CopiedRecords(records, last_offset)
            (batch,) = map(bytes, read.records)
            header = read_batch_header(batch)
            read_bytes += header.size
            try:
                plain_batch = await self._uncompressed_batch(batch, header, bytes_max)
            except (CorruptBatchError, MissingExtraError, UnpacksTooLargeError):
                plain_batch = b""
            for record in iter_records(plain_batch) if plain_batch else ():
                await rest_where_due(pace, 1)
                while (
                    letter_index < len(letters)
                    and letters[letter_index].last_offset < record.offset
                ):
                    letter_index += 1
                if letter_index == len(letters):
                    break
                if record.offset < max(offset, letters[letter_index].first_offset):
                    continue
                record_size = _record_size(record, header)
                if record_size <= bytes_max:
                    if copied_bytes + record_size > bytes_max:
                        return _CopiedRecords(records, record.offset - 1)
                    records[record.offset] = record
                    copied_bytes += record_size
            offset = header.last_offset + 1
            while letter_index < len(letters) and letters[letter_index].last_offset < offset:
                letter_index += 1
            offset = (
                max(offset, letters[letter_index].first_offset)
                if letter_index < len(letters)
                else last_offset + 1
            )
        return _CopiedRecords(records, min(offset - 1, last_offset))

    async def _uncompressed_batch(self, batch: bytes, header: BatchHeader, bytes_max: int) -> bytes:
        if not header.compression:
            return batch
        look_ahead = LookAhead(self._tasks)
        try:
            payload = bytes(await look_ahead.run_steps(payload_in_steps(header, batch, bytes_max)))
        finally:
            look_ahead.leave()
        return pack_batch(
            payload,
            base_offset=header.base_offset,
            leader_epoch=header.leader_epoch,
            attributes=header.attributes & ~BatchHeader.COMPRESSION,
            last_offset_delta=header.last_offset_delta,
            base_timestamp_ms=header.base_timestamp_ms,
            max_timestamp_ms=header.max_timestamp_ms,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            records_count=header.records_count,
        )


def _record_size(record: Record, header: BatchHeader) -> int:
    """Size of a record in its batch, in bytes."""
    assert record.timestamp_ms is not None
    return len(
        encode_record(
            record,
            offset_delta=record.offset - header.base_offset,
            timestamp_delta_ms=0
            if header.is_log_append_time
            else record.timestamp_ms - header.base_timestamp_ms,
        )
    )


def _letter_headers(
    group_id: str, source_partition: TopicPartition, letter: DeadLetter, offset: int
) -> tuple[tuple[str, bytes], ...]:
    header_values = {
        "topic": source_partition.topic,
        "partition": source_partition.partition,
        "offset": offset,
        "group": group_id,
        "delivery.count": letter.delivery_count,
        "message": letter.reason.value,
    }
    return tuple(
        (f"__dlq.errors.{header_name}", str(header_value).encode())
        for header_name, header_value in header_values.items()
    )
