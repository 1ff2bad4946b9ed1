"""Known bugs of programs around the Java client: who has one misses its situation, who has not
passes it. The table of RESULTS.md, played.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Final

import msgspec
import pytest

from tests.clients.exam_drivers import SOURCE_FOLDER, command_of
from tests.clients.exam_java import java_program
from tests.clients.klag_exporter import klag_exporter, lags, run_exporter
from tests.clients.test_exam_pairs import outcome
from tests.support.spark_connector import connector_jars
from txnsim_lab.exam.readers import (
    ReaderStatement,
    cluster_with_fixture_topics,
    expected_topics,
    misses,
)
from txnsim_lab.exam.results import SituationOutcome

pytestmark = [pytest.mark.clients, pytest.mark.nightly]

Program = tuple[str, ...]
SPARK_READER: Final = SOURCE_FOLDER / "spark_reader.py"
JAVA_CLIENT: Final = ("kafka-clients-4.4.0",)
SPRING, ICEBERG, FLINK = ("spring-kafka", "3.3.10"), ("iceberg", "1.11.0"), ("flink", "5.0.0-2.2")
PAIRS: Final[tuple[tuple[str, Program, Program], ...]] = (
    ("init-lost", ("spring-kafka", "2.6.6"), ("spring-kafka", "2.6.7")),
    ("lag-is-zero", SPRING, (*SPRING, "fix-tx-offsets")),
    ("fenced-by-newer", ICEBERG, (*ICEBERG, "stable-ids")),
    ("dies-with-open", (*ICEBERG, "worker"), (*ICEBERG, "worker", "stable-ids")),
    ("goes-back", (*FLINK, "pooling"), FLINK),
    ("closes-with-unknown-end", FLINK, JAVA_CLIENT),
)
"""Situation, who has the bug, and who has not: a mended version, another setting, or, where there
is none, the Java client itself.
"""


@pytest.mark.parametrize(("situation", "bad_program", "good_program"), PAIRS)
def test_the_bug_is_seen_and_nothing_else(
    situation: str, bad_program: Program, good_program: Program
) -> None:
    commands = [
        command_of(*program) if program == JAVA_CLIENT else java_program(*program)
        for program in (bad_program, good_program)
    ]
    outcomes = [outcome(command, situation, 2) for command in commands]
    assert outcomes == [SituationOutcome.MISSED, SituationOutcome.PASSED]


async def test_an_exporter_of_lag_counts_what_nobody_can_read(tmp_path: Path) -> None:
    """klag-exporter #104, open: its ends are high watermarks, also for ``read_committed``. Only
    where a transaction is open does that differ.
    """
    expected = expected_topics(are_on_disk=False)
    program_file = await asyncio.to_thread(klag_exporter, "0.1.29")
    async with (
        cluster_with_fixture_topics() as kafka,
        run_exporter(program_file, kafka.bootstrap, tmp_path) as address,
    ):
        lag_by_topic = await lags(address, topic_count=len(expected))
    reader_statements = [
        ReaderStatement(topic=topic, lag=offset_lag) for topic, offset_lag in lag_by_topic.items()
    ]
    [miss] = misses(expected, reader_statements)
    assert miss.startswith("open: lag 3; expected: 0.")


async def test_sparks_connector_reads_what_is_committed(tmp_path: Path) -> None:
    expected = expected_topics(are_on_disk=False)
    file = tmp_path / "expected.json"
    file.write_bytes(msgspec.json.encode(expected))
    async with cluster_with_fixture_topics() as kafka:
        command = (SPARK_READER, kafka.bootstrap, file, "--jars", connector_jars())
        process = await asyncio.create_subprocess_exec(
            sys.executable, *map(str, command), stdout=asyncio.subprocess.PIPE
        )
        output, _ = await process.communicate()
    assert process.returncode == 0
    reader_statements = [
        msgspec.json.decode(printed_line, type=ReaderStatement)
        for printed_line in output.splitlines()
    ]
    assert all(reader_statement.values is not None for reader_statement in reader_statements)
    assert list(misses(expected, reader_statements)) == []
