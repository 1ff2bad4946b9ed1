"""Checkpoint files."""

from __future__ import annotations

import pytest

from txnsim.errors import CorruptLogRecordError
from txnsim.storage import checkpoints
from txnsim.types import TopicPartition


def test_leader_epochs_are_written_as_kafka_writes_them_and_read_back() -> None:
    text = checkpoints.encode_leader_epochs([(0, 0), (4, 17)])
    assert text == "0\n2\n0 0\n4 17\n"
    assert checkpoints.decode_leader_epochs(text, place="here") == ((0, 0), (4, 17))


def test_offsets_are_written_by_partition_and_read_back() -> None:
    offsets = {TopicPartition("b", 1): 7, TopicPartition("a", 10): 3, TopicPartition("a", 2): 0}
    text = checkpoints.encode_offsets(offsets)
    assert text == "0\n3\na 2 0\na 10 3\nb 1 7\n"
    assert checkpoints.decode_offsets(text, place="here") == offsets


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("0\n", "dir/f: 1 lines"),
        ("1\n0\n", "dir/f: version '1', expected 0"),
        ("0\n2\n0 0\n", "dir/f: 1 entries, but it announces '2'"),
        ("0\n1\n0\n", "dir/f:3: '0' is no entry"),
        ("0\n2\n0 0\n1 x\n", "dir/f:4: '1 x' is no entry"),
    ],
)
def test_a_damaged_file_is_refused_with_its_place(text: str, complaint: str) -> None:
    with pytest.raises(CorruptLogRecordError, match=complaint):
        checkpoints.decode_leader_epochs(text, place="dir/f")


def test_an_offset_of_no_partition_is_refused() -> None:
    with pytest.raises(CorruptLogRecordError, match="f:3: 'a b 3' is no entry"):
        checkpoints.decode_offsets("0\n1\na b 3\n", place="f")


def test_a_file_that_was_made_and_not_filled_notes_nothing() -> None:
    """LogCleaner makes its checkpoint before it has cleaned anything."""
    assert checkpoints.decode_offsets("", place="f") == {}
    assert checkpoints.decode_leader_epochs("", place="f") == ()
