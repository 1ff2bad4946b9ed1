"""Records of ``__consumer_offsets`` as Apache Kafka 4.3.1 wrote them, read and written again.

They are of one session with a real broker: positions (also with a retention, and in a transaction),
a classic group with a dynamic and with a static member, a group of the consumer protocol with
static members and a regular expression, and the tombstones of all that.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from txnsim.group.log_format import decode_record, encode_record
from txnsim.group.record_kinds import PARTITION_METADATA

FILE: Final = Path(__file__).with_name("golden") / "group_records.jsonl"
LINES: Final = [json.loads(line) for line in FILE.read_text("utf-8").splitlines()]


@pytest.mark.parametrize("line", LINES, ids=lambda line: line["key"][:4])
def test_a_record_is_written_as_it_was_read(line: dict[str, str | None]) -> None:
    key = bytes.fromhex(line["key"] or "")
    value = None if line["value"] is None else bytes.fromhex(line["value"])
    record = decode_record(key, value)
    if int.from_bytes(key[:2], "big") == PARTITION_METADATA:
        assert record is None  # what coordinators of before 4.1 kept
        return
    assert record is not None
    assert encode_record(record) == (key, value)
