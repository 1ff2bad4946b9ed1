"""What readers say, held against what is expected of them."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from txnsim.cli.main import main
from txnsim.client._positions import committed_positions
from txnsim.types import TopicPartition
from txnsim_lab.exam.readers import (
    GROUP,
    ReaderStatement,
    cluster_with_fixture_topics,
    directories,
    expected_topics,
    misses,
)

EXPECTED_TOPICS = expected_topics(are_on_disk=True)


def right(**exam_fields: object) -> list[ReaderStatement]:
    """The right answers of a reader for all topics except ``open``."""
    reader_statements = [
        ReaderStatement(
            topic=expected_reading.topic,
            values=expected_reading.values,
            position=expected_reading.stable,
            end=expected_reading.stable,
            lag=0,
        )
        for expected_reading in EXPECTED_TOPICS
        if expected_reading.topic != "open"
    ]
    return [
        *reader_statements,
        *([ReaderStatement(topic="open", **exam_fields)] if exam_fields else []),  # type: ignore[arg-type]
    ]


def test_who_says_the_truth_misses_nothing() -> None:
    assert list(misses(EXPECTED_TOPICS, right(values=("a",), end=2))) == []


@pytest.mark.parametrize(
    ("answer", "expected_beginning"),
    [
        ({"values": ("a", "open", "b")}, "open: values a op b; expected: a. A transaction is open"),
        ({"end": 5}, "open: end 5; expected: 2"),
        ({"lag": 3}, "open: lag 3; expected: 0"),
        ({}, "open: nothing is said of it"),
    ],
)
def test_what_is_wrong_is_named(answer: dict[str, object], expected_beginning: str) -> None:
    (miss,) = misses(EXPECTED_TOPICS, right(**answer))
    assert miss.startswith(expected_beginning)


@pytest.mark.parametrize(
    ("expected_text", "answers"),
    [
        ("[]", ""),
        ("[]", '{"topic": "open"}'),
        ("", ""),
        ("{}", ""),
        ("[" * 100_000, ""),
        ("[null]", ""),
        ("\xff", ""),
    ],
)
def test_files_that_expect_nothing_are_no_success(
    expected_text: str, answers: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for file_name, text in (("expected.json", expected_text), ("answers.jsonl", answers)):
        (tmp_path / file_name).write_bytes(text.encode("latin-1"))
    files = [str(tmp_path / "expected.json"), str(tmp_path / "answers.jsonl")]
    assert main(["exam", "readers", "check", *files]) == 2
    assert str(tmp_path) in capsys.readouterr().err


@pytest.mark.parametrize("fields", [None, {}, {"values": None, "position": None}])
def test_a_reader_that_says_nothing_has_missed_all(
    fields: dict[str, object] | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "expected.json").write_bytes(msgspec.json.encode(EXPECTED_TOPICS))
    answers = [] if fields is None else [{"topic": it.topic, **fields} for it in EXPECTED_TOPICS]
    (tmp_path / "answers.jsonl").write_bytes(b"\n".join(map(msgspec.json.encode, answers)))
    files = [str(tmp_path / "expected.json"), str(tmp_path / "answers.jsonl")]
    assert main(["exam", "readers", "check", *files]) == 1
    assert (
        f"{len(EXPECTED_TOPICS)} topics, {len(EXPECTED_TOPICS)} misses" in capsys.readouterr().out
    )


async def test_a_group_has_read_all_topics() -> None:
    async with cluster_with_fixture_topics() as kafka:
        cluster = (await kafka.rebuilt.admin()).cluster
        topic_partitions = [
            TopicPartition(expected_reading.topic, 0)
            for expected_reading in expected_topics(are_on_disk=False)
        ]
        position_by_partition = await committed_positions(cluster, GROUP, topic_partitions)
    assert [position_by_partition[topic_partition] for topic_partition in topic_partitions] == [
        expected_reading.stable for expected_reading in expected_topics(are_on_disk=False)
    ]


async def test_directories_have_every_topic_and_one_that_is_cut_short() -> None:
    files = await directories()
    logs = {path.split("/")[1]: len(data) for path, data in files.items() if path.endswith(".log")}
    assert {f"{expected_reading.topic}-0" for expected_reading in EXPECTED_TOPICS} <= logs.keys()
    cut_log = files["broker-1/cut-short-0/00000000000000000000.log"]
    length_position = cut_log.rindex(b"\x00" * 7 + b"\x03")
    length = int.from_bytes(cut_log[length_position + 8 : length_position + 12])
    assert len(cut_log) - length_position - 12 < length, (
        "the last batch says more bytes than there are"
    )
