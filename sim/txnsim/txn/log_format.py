"""Encodes and decodes the records of ``__transaction_state``, byte for byte as Kafka does.

It follows TransactionLogKey.json and TransactionLogValue.json: value version 0 while
``transaction.version`` is finalized at 0, else version 1 with tagged fields. Both can always be
read. It does not know the log.

The encoder is written by hand: every state change of every transaction is a record, and a slow
coordinator slows everything down. It makes the whole record batch at once, uncompressed.

Counterpart in Kafka: TransactionLog.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from typing import Final

from txnsim.errors import CorruptLogRecordError, ErrorCode, Rejection
from txnsim.releases.rules import Rules
from txnsim.txn.state import NO_PARTITIONS, Tombstone, TransactionState, TxnRecord, TxnTransition
from txnsim.types import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    ProducerEpoch,
    ProducerId,
    TopicPartition,
    TransactionalId,
    TransactionVersion,
)
from txnsim.wire.batch_header import pack_plain_batch
from txnsim.wire.records import Record, build_batch, in_batches
from txnsim.wire.records import encode_record as framed_record
from txnsim.wire.varint import read_uvarint, uvarint

_TAG_PREV_PRODUCER_ID: Final = 0
_TAG_NEXT_PRODUCER_ID: Final = 1
_TAG_CLIENT_VERSION: Final = 2
_TAG_NEXT_PRODUCER_EPOCH: Final = 3

_KEY_HEAD: Final = struct.Struct("!hh")
_VALUE_HEAD: Final = struct.Struct("!hqhib")
_VALUE_TIMES: Final = struct.Struct("!qq")
_INT16: Final = struct.Struct("!h")
_INT32: Final = struct.Struct("!i")
_INT64: Final = struct.Struct("!q")
_TAG_INT64: Final = struct.Struct("!BBq")
_TAG_INT16: Final = struct.Struct("!BBh")

_STATES: Final = {
    state.value: state
    for state in TransactionState
    # The other two states are never written: Kafka fails to load them
    if state not in (TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE)
}
_CLIENT_VERSIONS: Final = {version.value: version for version in TransactionVersion}

_AT_0_RULES: Final = {
    TransactionState.EMPTY: "decide.init-after-2-to-0",
    TransactionState.ONGOING: "decide.add-at-0",
}
"""State -> row of docs/rules.md for a change that can't be logged at level 0, except for ends."""


# Writing


def refuse_record(record: TxnRecord, level: TransactionVersion) -> Rejection | None:
    """The error for a record with a protocol version, which does not fit into value version 0 and
    must not be dropped; None if it fits.

    It occurs when ``transaction.version`` was lowered to 0 while transactions of version 2 were
    open.
    """
    if level >= TransactionVersion.TV_1 or isinstance(record, Tombstone):
        return None
    if record.client_version == TransactionVersion.TV_0:
        return None
    return Rejection(
        error=ErrorCode.unsupported_version,
        reason=f"{record.transactional_id}: a transaction of version {record.client_version:d} "
        "cannot be logged while transaction.version is finalized at 0 (TransactionLogValue v0)",
        rule=_AT_0_RULES.get(record.state, "decide.end-at-0"),
    )


def encode_batch(
    records: Sequence[TxnRecord],
    *,
    level: TransactionVersion,
    now_ms: int,
    rules: Rules,
) -> bytes:
    """Encode records as one uncompressed record batch, not transactional, without a producer."""
    if len(records) == 1 and isinstance(record := records[0], TxnTransition):
        # Every step of a transaction writes this, so it is encoded directly.
        key = _key_field(record.transactional_id)
        value = encode_value(record, level=level, rules=rules)
        value_length = _length(len(value))
        length = 4 + len(key) + len(value_length) + len(value)
        payload = b"".join(
            # length, attributes and the two deltas, key, value, no headers
            (_length(length), b"\x00\x00\x00", key, value_length, value, b"\x00")
        )
        return pack_plain_batch(payload, timestamp_ms=now_ms)
    framed_records = [
        Record(
            key=encode_key(record.transactional_id),
            value=None
            if isinstance(record, Tombstone)
            else encode_value(record, level=level, rules=rules),
        )
        for record in records
    ]
    return build_batch(framed_records, timestamp_ms=now_ms)


def tombstone_batches(
    tombstones: Sequence[Tombstone], *, batch_bytes_max: int, rules: Rules
) -> list[list[Tombstone]]:
    """Split tombstones into batches of at most ``batch_bytes_max``, the limit of the topic.
    Releases before KAFKA-13099 write one batch, whatever its size.
    """
    if rules.expired_ids_take_many_batches:
        batches = in_batches(tombstones, _tombstone_record, batch_bytes_max=batch_bytes_max)
        return [batch for batch, _ in batches]
    return [list(tombstones)] if tombstones else []


def _tombstone_record(tombstone: Tombstone, number: int) -> bytes:
    record = Record(key=encode_key(tombstone.transactional_id))
    return framed_record(record, offset_delta=number, timestamp_delta_ms=0)


@lru_cache(maxsize=4_096)
def _length(length: int) -> bytes:
    """Encode a length as records have it (zigzag)."""
    return uvarint(2 * length)


@lru_cache(maxsize=65_536)
def _key_field(transactional_id: TransactionalId) -> bytes:
    """Encode the key of a record with its length: the same in all records of a transactional id."""
    key = encode_key(transactional_id)
    return uvarint(2 * len(key)) + key  # zigzag


def encode_key(transactional_id: TransactionalId) -> bytes:
    """Encode TransactionLogKey version 0."""
    text = transactional_id.encode()
    return _KEY_HEAD.pack(0, len(text)) + text


def encode_value(transition: TxnTransition, *, level: TransactionVersion, rules: Rules) -> bytes:
    """Encode TransactionLogValue in the version that ``level`` requires."""
    flexible = level >= _TV_1
    head = _VALUE_HEAD.pack(
        1 if flexible else 0,
        transition.producer_id,
        transition.producer_epoch,
        transition.txn_timeout_ms,
        transition.state,
    )
    times = _VALUE_TIMES.pack(transition.last_update_timestamp_ms, transition.start_timestamp_ms)
    if transition.state is _EMPTY:
        partitions = b"\x00" if flexible else b"\xff\xff\xff\xff"
    else:
        partitions = _encode_partitions(transition.partitions, flexible=flexible)
    if not flexible:
        return head + partitions + times
    # Tagged fields; one at its default is left out.
    tags = b""
    count = 0
    prev_id, next_id = transition.prev_producer_id, transition.next_producer_id
    if not rules.swapped_ids_are_logged:
        prev_id = next_id = NO_PRODUCER_ID
    if prev_id != NO_PRODUCER_ID:
        count += 1
        tags += _TAG_INT64.pack(_TAG_PREV_PRODUCER_ID, 8, prev_id)
    if next_id != NO_PRODUCER_ID:
        count += 1
        tags += _TAG_INT64.pack(_TAG_NEXT_PRODUCER_ID, 8, next_id)
    if transition.client_version:
        count += 1
        tags += _TAG_INT16.pack(_TAG_CLIENT_VERSION, 2, transition.client_version)
    if transition.next_producer_epoch != NO_PRODUCER_EPOCH:  # the text of KIP-939: no release
        count += 1
        tags += _TAG_INT16.pack(_TAG_NEXT_PRODUCER_EPOCH, 2, transition.next_producer_epoch)
    return head + partitions + times + _COUNTS[count] + tags


@lru_cache(maxsize=4_096)
def _encode_partitions(partitions: frozenset[TopicPartition], *, flexible: bool) -> bytes:
    """Encode partitions grouped by topic and sorted, so that equal runs write equal logs.

    The result is cached: the record that prepares an end repeats the partitions of the record
    before, and most producers write to the same partitions in every transaction.
    """
    topics = [
        (topic.encode(), [partition.partition for partition in group])
        for topic, group in groupby(sorted(partitions), key=lambda partition: partition.topic)
    ]
    parts = []
    if flexible:
        parts.append(uvarint(len(topics) + 1))
        for topic, ids in topics:
            parts += (uvarint(len(topic) + 1), topic, uvarint(len(ids) + 1))
            parts += (struct.pack(f"!{len(ids)}i", *ids), b"\x00")
    else:
        parts.append(_INT32.pack(len(topics)))
        for topic, ids in topics:
            parts += (_INT16.pack(len(topic)), topic, _INT32.pack(len(ids)))
            parts.append(struct.pack(f"!{len(ids)}i", *ids))
    return b"".join(parts)


# Module constants: looking a member up in its enum costs more than the comparison
_TV_1: Final = TransactionVersion.TV_1
_EMPTY: Final = TransactionState.EMPTY

_COUNTS: Final = (b"\x00", b"\x01", b"\x02", b"\x03", b"\x04")

# Reading

_NO_TAGS: Final = (-1, -1, 0, -1)
"""Values of the tagged fields of a record without tags."""


def decode_record(key: bytes, value: bytes | None, *, rules: Rules) -> TxnRecord | None:
    """Decode a record of the log.

    Returns:
        The record; None if key or value have an unknown version: Kafka skips these.

    Raises:
        CorruptLogRecordError: The bytes end too early, have a state that is never written, or have
            a version that this broker's release refuses.
    """
    try:
        key_version, size = _KEY_HEAD.unpack_from(key)
        if key_version != 0:
            return None
        transactional_id = TransactionalId(key[4 : 4 + size].decode())
        if value is None:
            return Tombstone(transactional_id=transactional_id)
        return _decode_value(transactional_id, value, rules)
    except (struct.error, IndexError, ValueError) as error:
        raise CorruptLogRecordError(
            f"unreadable record of __transaction_state: {error}, key {key.hex()}"
        ) from error


def _decode_value(
    transactional_id: TransactionalId, value: bytes, rules: Rules
) -> TxnTransition | None:
    (version,) = _INT16.unpack_from(value)
    if not 0 <= version <= (1 if rules.flexible_records_are_read else 0):
        if rules.unknown_records_are_skipped:
            return None
        raise CorruptLogRecordError(f"{transactional_id}: unknown version {version} of its record")
    _, producer_id, producer_epoch, timeout_ms, status = _VALUE_HEAD.unpack_from(value)
    state = _STATES.get(status)
    if state is None:
        raise CorruptLogRecordError(f"{transactional_id}: unknown transaction state {status}")
    body = _plain_body(value) if version == 1 else None
    if body is None:
        cursor = _Cursor(value, _VALUE_HEAD.size)
        partitions = cursor.partitions(flexible=version == 1)
        last_update_ms, start_ms = cursor.int64(), cursor.int64()
        tags = cursor.tags() if version == 1 else _NO_TAGS
    else:
        partitions, last_update_ms, start_ms, tags_at = body
        no_tags = value[tags_at] == 0
        tags = _NO_TAGS if no_tags else _Cursor(value, tags_at).tags()
    if not rules.client_version_is_kept:  # tagged fields came with this rule
        tags = _NO_TAGS
    prev_id, next_id, client_version, next_epoch = tags
    client = _CLIENT_VERSIONS.get(client_version)
    if client is None:
        raise CorruptLogRecordError(
            f"{transactional_id}: {client_version} is not a valid TransactionVersion"
        )
    return TxnTransition(
        transactional_id=transactional_id,
        producer_id=ProducerId(producer_id),
        prev_producer_id=ProducerId(prev_id),
        next_producer_id=ProducerId(next_id),
        producer_epoch=ProducerEpoch(producer_epoch),
        last_producer_epoch=NO_PRODUCER_EPOCH,
        txn_timeout_ms=timeout_ms,
        state=state,
        partitions=partitions,
        start_timestamp_ms=start_ms,
        last_update_timestamp_ms=last_update_ms,
        client_version=client,
        next_producer_epoch=ProducerEpoch(next_epoch),
    )


def _plain_body(value: bytes) -> tuple[frozenset[TopicPartition], int, int, int] | None:
    """Decode a common value of version 1 quickly: (partitions, update time, start time, position of
    the tags). None if it has several topics or long names, or is cut off.
    """
    offset = _VALUE_HEAD.size
    partitions = NO_PARTITIONS
    if offset + 1 >= len(value) or value[offset] > 2:
        return None
    if value[offset] < 2:  # null in Empty, no elements in CompleteX
        offset += 1
    else:  # one topic: mostly that of the record before
        count_at = offset + 1 + value[offset + 1]
        if not 1 <= value[offset + 1] < 0x80 or count_at >= len(value):
            return None
        end = count_at + 4 * value[count_at] - 2  # the encoded number is one too large
        if not 1 <= value[count_at] < 0x80 or end > len(value) or value[end - 1]:
            return None
        partitions = _partitions_in(value[offset:end])
        offset = end
    end_of_times = offset + _VALUE_TIMES.size
    if end_of_times >= len(value):
        return None
    last_update_ms, start_ms = _VALUE_TIMES.unpack_from(value, offset)
    return partitions, last_update_ms, start_ms, end_of_times


@lru_cache(maxsize=1 << 12)
def _partitions_in(data: bytes) -> frozenset[TopicPartition]:
    return _Cursor(data, 0).partitions(flexible=True)


class _Cursor:
    """Decodes primitive values one after the other."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes, offset: int) -> None:
        self._data = data
        self._at = offset

    def int64(self) -> int:
        return self._unpack_fixed(_INT64)

    def partitions(self, *, flexible: bool) -> frozenset[TopicPartition]:
        topics = self._length(flexible=flexible, fixed=_INT32)
        if topics <= 0:  # null in Empty, no elements in CompleteX
            return NO_PARTITIONS
        partitions = []
        for _ in range(topics):
            topic = self._take(self._length(flexible=flexible, fixed=_INT16)).decode()
            count = self._length(flexible=flexible, fixed=_INT32)
            ids = struct.unpack(f"!{count}i", self._take(4 * count))
            partitions += [TopicPartition(topic, partition) for partition in ids]
            if flexible:
                self.tags()
        return frozenset(partitions)

    def tags(self) -> tuple[int, int, int, int]:
        """Decode (previous producer id, next producer id, protocol version, next producer epoch);
        unknown tags are skipped.
        """
        prev_id, next_id, client_version, next_epoch = _NO_TAGS
        for _ in range(self._uvarint()):
            tag = self._uvarint()
            field = _Cursor(self._take(self._uvarint()), 0)
            match tag:
                case 0:
                    prev_id = field._unpack_fixed(_INT64)
                case 1:
                    next_id = field._unpack_fixed(_INT64)
                case 2:
                    client_version = field._unpack_fixed(_INT16)
                case 3:
                    next_epoch = field._unpack_fixed(_INT16)
                case _:
                    pass
        return prev_id, next_id, client_version, next_epoch

    def _length(self, *, flexible: bool, fixed: struct.Struct) -> int:
        """Decode a length; -1 for null."""
        return self._uvarint() - 1 if flexible else self._unpack_fixed(fixed)

    def _unpack_fixed(self, form: struct.Struct) -> int:
        (value,) = form.unpack_from(self._data, self._at)
        self._at += form.size
        return int(value)

    def _uvarint(self) -> int:
        value, self._at = read_uvarint(self._data, self._at)
        return value

    def _take(self, size: int) -> bytes:
        taken_bytes = self._data[self._at : self._at + size]
        if len(taken_bytes) != size:
            raise IndexError(f"{size} bytes wanted at {self._at}, {len(taken_bytes)} left")
        self._at += size
        return taken_bytes
