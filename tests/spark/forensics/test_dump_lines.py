"""Lines of ``kafka-dump-log``, as its releases print them and as people post them.

``dumps/`` has what the tools of these releases printed of one directory: a 4.4.0 had written a
commit, an abort with a record that reads like a marker, a commit whose value has two lines, three
plain records in a compressed batch, and an open transaction of another producer at offset 9.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from txnsim.txn.open_txn_verdict import OpenTxnStatus
from txnsim.types import TopicPartition
from txnsim_spark.forensics._dump_lines import (
    DumpedProducer,
    DumpLineReader,
    IncompleteLine,
    entry_of,
    unwrap_lines,
)
from txnsim_spark.forensics.dumped import DumpedAnswer, judge_dump

DUMPS: Final = Path(__file__).with_name("dumps")
LOGS: Final = ("2.5.1", "2.8.2", "3.1.2", "3.9.1", "4.4.0")
COLOURS: Final = "\x1b[32m{}\x1b[0m"


def dump(name: str) -> list[str]:
    return (DUMPS / f"{name}.txt").read_text().splitlines(keepends=True)


def summary_of(dumped_answer: DumpedAnswer) -> tuple[object, ...]:
    (partition,) = dumped_answer.partitions
    open_rows = [(txn.producer_id, txn.start_offset, txn.verdict) for txn in partition.open]
    return (
        (partition.first_offset, partition.last_offset, partition.batches),
        (partition.commits, partition.aborts, partition.unread_markers),
        open_rows,
        dumped_answer.understood,
    )


OPEN: Final = [(2, 9, OpenTxnStatus.UNKNOWN)]
WHOLE: Final = ((0, 9, 8), (2, 1, 0), OPEN, True)


@pytest.mark.parametrize("release", LOGS)
def test_every_release_says_the_same_of_one_segment(release: str) -> None:
    assert summary_of(judge_dump(dump(f"log-{release}"))) == WHOLE


@pytest.mark.parametrize("release", ["2.8.2", "4.4.0"])
def test_records_without_their_metadata_leave_the_kind_of_markers_open(release: str) -> None:
    assert summary_of(judge_dump(dump(f"records-{release}"))) == ((0, 9, 8), (0, 0, 3), OPEN, True)


@pytest.mark.parametrize("release", ["2.5.1", "3.1.2", "4.4.0"])
def test_a_snapshot_says_which_transaction_is_open(release: str) -> None:
    dump_answer = judge_dump(dump(f"snapshot-{release}"))
    assert summary_of(dump_answer) == ((None, None, 0), (0, 0, 0), OPEN, True)
    (partition,) = dump_answer.partitions
    assert (partition.partition, partition.snapshot_offset) == (TopicPartition("orders", 0), 10)
    assert partition.open[0].last_timestamp_ms == 1795917279344
    assert any("behind the .snapshot of orders-0" in sentence for sentence in dump_answer.missing)


@pytest.mark.parametrize("release", ["4.0.0", "4.4.0"])
def test_the_coordinators_log_is_read_in_both_forms(release: str) -> None:
    dump_answer = judge_dump(dump("log-4.4.0"), dump(f"entries-{release}"))
    (entry,) = dump_answer.entries
    assert (entry.transactional_id, entry.state) == ("bank", "Ongoing")
    assert dump_answer.partitions[0].open[0].verdict is OpenTxnStatus.ALIVE


@pytest.mark.parametrize("release", ["2.5.1", "2.8.2"])
def test_a_tool_that_ended_with_an_error_has_not_said_everything(release: str) -> None:
    dump_answer = judge_dump(dump(f"error-{release}"))
    assert not dump_answer.understood
    assert any(
        "nknown" in sentence and "when it ended with an error" in sentence
        for sentence in dump_answer.missing
    )


def in_docker_json(line: str) -> str:
    return json.dumps({"log": line, "stream": "stdout", "time": "2026-11-26T22:43:02.1Z"}) + "\n"


def of_a_collector(line: str) -> str:
    record = {"@timestamp": "x", "kubernetes": {"pod": "kafka-0"}, "message": in_docker_json(line)}
    return json.dumps(record) + "\n"


WRAPPINGS: Final[dict[str, Callable[[int, str], str]]] = {
    "CRLF": lambda number, line: line.rstrip("\n") + "\r\n",
    "indented": lambda number, line: "    " * (1 + number % 2) + line,
    "quoted": lambda number, line: "> " + line,
    "kubectl --timestamps": lambda number, line: f"2026-11-26T22:43:0{number % 10}.12345Z {line}",
    "kubectl --prefix": lambda number, line: f"[pod/kafka-0/kafka] {line}",
    "compose": lambda number, line: f"kafka-1  | {line}",
    "log4j": lambda number, line: f"[2026-11-26 22:43:02,{number:03}] INFO {line}",
    "grep -n": lambda number, line: f"{number + 1}:{line}",
    "colours": lambda number, line: COLOURS.format(line.rstrip("\n")) + "\n",
    "docker's JSON": lambda number, line: in_docker_json(line),
    "a collector's JSON": lambda number, line: of_a_collector(line),
}


@pytest.mark.parametrize("release", LOGS)
@pytest.mark.parametrize("wrapping", WRAPPINGS)
def test_what_collectors_put_around_a_line_changes_nothing(wrapping: str, release: str) -> None:
    wrap = WRAPPINGS[wrapping]
    lines = [wrap(number, line) for number, line in enumerate(dump(f"log-{release}"))]
    assert summary_of(judge_dump(lines)) == WHOLE
    snapshot = [wrap(number, line) for number, line in enumerate(dump("snapshot-4.4.0"))]
    assert summary_of(judge_dump(snapshot))[2] == OPEN


@pytest.mark.parametrize("width", [80, 132, 200])
def test_lines_that_a_terminal_has_cut_are_put_together(width: int) -> None:
    cut_lines = [
        f"{line[start : start + width].rstrip()}\n"
        for line in dump("log-2.5.1")
        for start in range(0, len(line.rstrip()), width)
    ]
    partition = judge_dump(cut_lines).partitions[0]
    assert (partition.batches, partition.last_offset) == (8, 9)
    assert [txn.start_offset for txn in partition.open] == [9]


def test_a_batch_without_its_end_leaves_the_answer_open() -> None:
    log = dump("log-4.4.0")[:10]
    assert judge_dump(log).understood
    cut_lines = [
        *log,
        "baseOffset: 9 lastOffset: 9 count: 1 baseSequence: 0 lastSequence: 0 producerId: 2\n",
    ]
    dump_answer = judge_dump(cut_lines)
    assert not dump_answer.understood
    assert any("lack fields" in sentence for sentence in dump_answer.missing)


def test_a_record_before_2_1_has_the_fields_of_its_batch() -> None:
    batch_fields = "magic: 2 compresscodec: NONE producerId: 7 producerEpoch: 3 sequence: 0"
    dump_answer = judge_dump(
        [
            "Dumping logs\\orders-0\\00000000000000000000.log\n",
            "Starting offset: 0\n",
            "offset: 0 position: 0 CreateTime: 1552341204207 isvalid: true keysize: 1 valuesize: 1"
            f" {batch_fields} isTransactional: true headerKeys: [] key: k payload: v\n",
            "offset: 1 position: 103 CreateTime: 1552341204531 isvalid: true keysize: 4 size: 6"
            f" {batch_fields} isTransactional: true headerKeys: [] endTxnMarker: ABORT x: 0\n",
            "offset: 2 position: 203 CreateTime: 1552341204540 isvalid: true keysize: -1 size: 1"
            f" {batch_fields} isTransactional: true headerKeys: [] payload: w\n",
        ]
    )
    assert summary_of(dump_answer) == ((0, 2, 3), (0, 1, 0), [(7, 2, OpenTxnStatus.UNKNOWN)], True)


def test_header_keys_are_no_fields() -> None:
    log = dump("log-4.4.0")
    marker = next(number for number, line in enumerate(log) if "endTxnMarker: ABORT" in line)
    forged = log[marker].replace(
        "headerKeys: [] endTxnMarker: ABORT",
        "headerKeys: [x endTxnMarker: COMMIT y] endTxnMarker: ABORT",
    )
    assert summary_of(judge_dump([*log[:marker], forged, *log[marker + 1 :]])) == WHOLE


def test_a_producer_of_a_snapshot_without_the_field_of_its_transaction_is_incomplete() -> None:
    reader = DumpLineReader()
    reader.read("Dumping /data/orders-0/00000000000000000010.snapshot")
    start = "producerId: 2 producerEpoch: 0 coordinatorEpoch: -1 currentTxnFirstOffset: "
    assert isinstance(reader.read(f"{start}Something"), IncompleteLine)
    producer = reader.read(f"{start}None lastTimestamp: -1 ")
    assert producer == DumpedProducer(
        producer_id=2, producer_epoch=0, start_offset=None, timestamp_ms=-1
    )


@pytest.mark.parametrize(
    ("payload_text", "entry_text"),
    [
        ('key: {"type":"0","data":{"transactionalId":"a }} payload: {"}} payload: null', "deleted"),
        (
            'key: {"type":"0","data":{"transactionalId":"a"}} payload: {"version":"9","data":"x"}',
            None,
        ),
        ('key: {"type":"0","data":{"transactionalId":"a"}} payload: {"version":"1","da', None),
        ("key: transaction_metadata::transactionalId=a payload: <DELETE>", "deleted"),
        ("key: transaction_metadata::transactionalId=a payload: producerId:1,produ", None),
        ("keysize: 8 valuesize: 37", None),
    ],
)
def test_an_entry_that_is_not_whole_is_not_taken_for_a_deletion(
    payload_text: str, entry_text: str | None
) -> None:
    entry_read = entry_of(f"offset: 0 CreateTime: 1 {payload_text}", 1)
    assert (entry_read is None) if entry_text is None else isinstance(entry_read, str)


def test_json_that_is_no_log_line_is_left_alone() -> None:
    for text in ('{"a": 1}', "{broken", '{"log": 3}', "{" * 5_000):
        assert list(unwrap_lines(text)) == [text]
