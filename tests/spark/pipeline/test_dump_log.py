"""Our tables compared line by line with Kafka's own reader of its files, ``kafka-dump-log``: over
the directories of a real broker after an orderly stop and a kill, and over those of ``logs write``.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

from tests.spark.pipeline import dumped_tables as as_dumped
from tests.spark.pipeline.corpus.made import Corpus
from tests.spark.pipeline.reading import Tables
from tests.spark.pipeline.simulated_disks import write_simulated_disks
from tests.spark.soundness.test_partition import DAMAGES
from tests.support.apache_kafka import POM, ApacheKafkaError, java_classes, java_command, kafka_libs
from tests.support.soundness import busy_log, write_log_dir
from txnsim.storage import names
from txnsim.storage.metadata_log import StoredMetadata
from txnsim.storage.names import Suffix
from txnsim.types import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from txnsim_spark.soundness.violations import DUMP_LOG, REPORTED_BY, Invariant

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.real]

MAIN_CLASS: Final = "org.apache.kafka.tools.DumpLogSegments"
SOURCE: Final = POM.with_name("dump") / "HexDecoder.java"
NAMES_LENGTH_MAX: Final = 120_000
"""Greatest length of file names in one call: they are one argument, which Linux limits to 128
KiB.
"""
RECORDS: Final = (
    *("--deep-iteration", "--print-data-log"),
    *("--key-decoder-class", "HexDecoder", "--value-decoder-class", "HexDecoder"),
)
"""Options that print every batch and every record."""
_BEGIN: Final = "Dumping "


class Dump(NamedTuple):
    """Output of the tool."""

    files: dict[Path, list[str]]
    """Lines of each file."""
    complaints: str
    """Standard error: mismatches of indexes, gaps, and other messages."""


def dump_log(files: Iterable[Path], *options: str, may_fail: bool = False) -> Dump:
    """Run the tool on files.

    Args:
        files: The files to read.
        options: Options of the tool.
        may_fail: Accept errors, which some kinds of damage cause; each file has its own process
            then.

    Raises:
        ApacheKafkaError: The tool failed unexpectedly.
    """
    lines_by_file: dict[Path, list[str]] = {}
    complaints_text = ""
    for share_of_files in _shares(files, 0 if may_fail else NAMES_LENGTH_MAX):
        output, complained = _run(share_of_files, options, may_fail=may_fail)
        lines_by_file.update(_by_file(output))
        complaints_text += complained
    return Dump(lines_by_file, complaints_text)


def _shares(files: Iterable[Path], length_max: int) -> Iterator[list[Path]]:
    """Groups of files whose names fit into one argument; each has at least one file."""
    share: list[Path] = []
    length = 0
    for path in files:
        length += len(str(path)) + 1
        if share and length > length_max:
            yield share
            share, length = [], len(str(path)) + 1
        share.append(path)
    if share:
        yield share


def _run(files: Sequence[Path], options: Sequence[str], *, may_fail: bool) -> tuple[str, str]:
    libs_directory = kafka_libs()
    java = ["-Xmx512m", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"]
    *java_arguments, classpath = java_command(libs_directory, options=java)
    decoder_file = java_classes([SOURCE], name="dump", libs_directory=libs_directory)
    command = [*java_arguments, f"{classpath}:{decoder_file}", MAIN_CLASS, *options]
    process = subprocess.run(
        [*command, "--files", ",".join(map(str, files))],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if process.returncode != 0 and not may_fail:
        raise ApacheKafkaError(f"kafka-dump-log failed:\n{process.stdout[-2000:]}{process.stderr}")
    return process.stdout, process.stderr


def _by_file(output: str) -> Iterator[tuple[Path, list[str]]]:
    path: Path | None = None
    lines: list[str] = []
    for printed_line in output.splitlines():
        if printed_line.startswith(_BEGIN):
            if path is not None:
                yield path, lines
            path, lines = Path(printed_line.removeprefix(_BEGIN)), []
        else:
            lines.append(printed_line.rstrip())
    if path is not None:
        yield path, lines


RECORD = "| "
INDEXES = (".index", ".timeindex")
LINES_MIN = 200
"""Least number of batches, and of records."""


class Stage(NamedTuple):
    """The directories of a stage, and how to read them."""

    name: str
    tables: Tables
    dumps: Dumps
    paths: tuple[Path, ...]

    def dump_of(self, *suffixes: str, topic: str = "", options: Sequence[str] = ()) -> Dump:
        """What Kafka's tool prints of the files with these suffixes."""
        dump = self.dumps.of(suffixes, topic, tuple(options))
        own_files_by_path = {
            path: lines for path, lines in dump.files.items() if path.parents[1] in self.paths
        }
        return Dump(own_files_by_path, dump.complaints)

    def rows(self, table_name: str, *order: str, **options: str) -> Iterator[dict[str, Any]]:
        """Rows of a table, sorted."""
        rows = self.tables.rows(
            self.name, table_name, "log_dir", "topic", "partition", *order, **options
        )
        return (row.asDict(recursive=True) for row in rows)


class Dumps:
    """Outputs of Kafka's tool for all stages; one Java process reads the files of all of them."""

    def __init__(self, stages: Mapping[str, tuple[Path, ...]]) -> None:
        self._log_dirs = [path for paths in stages.values() for path in paths]
        self._read: dict[tuple[object, ...], Dump] = {}

    def of(self, suffixes: tuple[str, ...], topic: str, options: tuple[str, ...]) -> Dump:
        """Output for the files with these suffixes, in partitions of topics with this prefix."""
        key = (suffixes, topic, options)
        if key not in self._read:
            files = _files(self._log_dirs, suffixes, topic)
            sound_files = (path for path in files if not _fails_the_tool(path))
            self._read[key] = dump_log(sound_files, *options)
        return self._read[key]


def _files(log_dirs: Iterable[Path], suffixes: tuple[str, ...], topic: str = "") -> Iterator[Path]:
    """The files with these suffixes, in partitions of topics with this prefix."""
    for log_dir in log_dirs:
        for path in sorted(log_dir.rglob(f"{topic}*/*")):
            is_of_partition = names.topic_partition_of(path.parent.name) is not None
            if is_of_partition and path.suffix in suffixes:
                yield path


def _fails_the_tool(path: Path) -> bool:
    """Whether Kafka's tool fails on a file: on the zeros of an index whose segment is still
    empty.
    """
    return path.suffix in INDEXES and not path.with_suffix(".log").stat().st_size


@pytest.fixture(scope="module")
def stages(
    spark: SparkSession, corpus: Corpus, tables: Tables, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Stage]:
    """The stages, each with the directories of two brokers."""
    written_disks = write_simulated_disks(tmp_path_factory.mktemp("written") / "disks")
    paths = {
        "clean": corpus.brokers("clean"),
        "killed": corpus.brokers("killed"),
        "written": written_disks,
    }
    dumps = Dumps(paths)
    written_tables = Tables(spark, {"written": written_disks})
    return {
        name: Stage(name, written_tables if name == "written" else tables, dumps, log_dirs)
        for name, log_dirs in paths.items()
    }


@pytest.fixture(params=["clean", "killed", "written"])
def stage(request: pytest.FixtureRequest, stages: dict[str, Stage]) -> Stage:
    return stages[request.param]


def _equal(lines_by_file: dict[Path, list[str]], expected_by_path: dict[Path, list[str]]) -> None:
    """Check that both have the same lines in the same files; shows the first file that differs."""
    for path in sorted(lines_by_file.keys() | expected_by_path.keys()):
        assert lines_by_file.get(path, []) == expected_by_path.get(path, []), path


def _without_front(dump_by_path: dict[Path, list[str]]) -> dict[Path, list[str]]:
    """The lines of batches and records only."""
    fronts = ("Log starting offset: ", "Snapshot end offset: ")
    return {
        path: [line for line in lines if not line.startswith(fronts)]
        for path, lines in dump_by_path.items()
    }


def _segments(stage: Stage) -> dict[Path, list[str]]:
    return _without_front(stage.dump_of(".log", options=RECORDS).files)


def test_every_batch_is_the_same(stage: Stage) -> None:
    rows = stage.rows("batches", "segment_base_offset", "position", checkCrc="true")
    lines_by_file = as_dumped.by_file(rows, Suffix.LOG, "segment_base_offset", as_dumped.batch_line)
    expected_by_path = _choose_lines(_segments(stage), lambda line: not line.startswith(RECORD))
    assert sum(map(len, expected_by_path.values())) > LINES_MIN
    _equal(lines_by_file, expected_by_path)


def test_every_record_is_the_same(stage: Stage) -> None:
    rows = stage.rows("records", "segment_base_offset", "offset")
    lines_by_file = as_dumped.by_file(
        rows, Suffix.LOG, "segment_base_offset", as_dumped.record_line
    )
    expected_by_path = _choose_lines(_segments(stage), lambda line: line.startswith(RECORD))
    assert sum(map(len, expected_by_path.values())) > LINES_MIN
    _equal(
        lines_by_file,
        {path: list(map(_without_control, lines)) for path, lines in expected_by_path.items()},
    )


def _without_control(line: str) -> str:
    """A line without the fields of a control record of the metadata log, which are not compared."""
    text_before, mark_text, _ = line.partition("headerKeys: [] ")
    other_kinds = (
        "LeaderChange",
        "SnapshotHeader",
        "SnapshotFooter",
        "KRaftVersion",
        "KRaftVoters",
    )
    is_other = line[len(text_before + mark_text) :].startswith(other_kinds)
    return (text_before + mark_text).rstrip() if is_other else line


def _choose_lines(
    dump_by_path: dict[Path, list[str]], is_wanted: Callable[[str], bool]
) -> dict[Path, list[str]]:
    return {
        path: chosen_lines
        for path, lines in dump_by_path.items()
        if (chosen_lines := list(filter(is_wanted, lines)))
    }


def test_every_producer_of_every_snapshot_is_the_same(stage: Stage) -> None:
    expected_by_path = stage.dump_of(".snapshot").files
    rows = stage.rows("producer_state", "snapshot_offset", "producer_id")
    lines_by_file = as_dumped.by_file(
        rows, Suffix.SNAPSHOT, "snapshot_offset", as_dumped.snapshot_line
    )
    assert any(expected_by_path.values())
    _equal(
        lines_by_file,
        {path: sorted(lines, key=_producer_id) for path, lines in expected_by_path.items()},
    )


def _producer_id(line: str) -> int:
    return int(line.split(" ")[1])


def test_every_aborted_transaction_is_the_same(stage: Stage) -> None:
    expected_by_path = stage.dump_of(".txnindex").files
    rows = stage.rows("aborted", "segment_base_offset", "marker_offset")
    lines_by_file = as_dumped.by_file(
        rows, Suffix.TXN_INDEX, "segment_base_offset", as_dumped.aborted_line
    )
    assert any(expected_by_path.values())
    _equal(lines_by_file, expected_by_path)


def test_the_tool_complains_of_no_index_that_has_an_entry(stage: Stage) -> None:
    dump = stage.dump_of(*INDEXES)
    empty = {path for path, lines in dump.files.items() if not _entries(lines, int(path.stem))}
    assert len(empty) < len(dump.files)
    # The zeros that an unclean stop leaves are no entries, so they don't fit the log.
    assert _files_with_complaints(dump.complaints) & dump.files.keys() <= empty


def test_indexes_pass_the_check_of_a_broker_that_starts(stages: dict[str, Stage]) -> None:
    """Behind a kill they end in zeros, or do not: a broker makes those anew before it checks.

    So do those of the metadata log behind an orderly stop of 4.4.0: 10 MB, mostly zeros. 4.3.1 and
    older ones cut them to their entries, as every release does with the logs of other topics.
    """
    log_dirs = (*stages["clean"].paths, *stages["written"].paths)
    paths = [
        path for path in _files(log_dirs, INDEXES) if path.parent.name != StoredMetadata.FOLDER
    ]
    dump = dump_log(paths, "--index-sanity-check")
    assert dump.complaints == ""
    ends = (" is empty.", " passed sanity check.")
    assert all(lines[-1].endswith(ends) for lines in dump.files.values())


def _entries(lines: Sequence[str], base_offset: int) -> list[str]:
    """Lines without the first of the zeros after an unclean stop, which the tool prints."""
    zeros = (f"offset: {base_offset} position: 0", f"timestamp: 0 offset: {base_offset}")
    return [
        zero_line
        for zero_line in lines
        if zero_line not in zeros and not zero_line.endswith(" is empty.")
    ]


def _files_with_complaints(complaints_text: str) -> set[Path]:
    """Files that the tool reports as not fitting the log."""
    complaint_parts = (
        complaint_line.rpartition(":") for complaint_line in complaints_text.splitlines()
    )
    return {Path(path.strip()) for _, _, path in complaint_parts if path.endswith(("index",))}


def test_every_record_of_the_coordinators_is_the_same(stage: Stage) -> None:
    options = ("--transaction-log-decoder", "--deep-iteration")
    dump_by_path = stage.dump_of(".log", topic=TRANSACTION_STATE_TOPIC, options=options).files
    expected = [
        as_dumped.dumped_transaction(line)
        for path in sorted(dump_by_path)
        for line in dump_by_path[path]
        if line.startswith(RECORD) and " key: " in line
    ]
    rows = stage.rows("transactions", "segment_base_offset", "offset")
    lines_by_file = list(map(as_dumped.transaction_values, rows))
    assert len(expected) > 20
    assert sorted(map(repr, map(_sorted_fields, lines_by_file))) == sorted(
        map(repr, map(_sorted_fields, expected))
    )


def _sorted_fields(record: tuple[str, dict[str, Any] | None]) -> tuple[str, list[tuple[str, Any]]]:
    return record[0], sorted((record[1] or {}).items())


def test_every_record_of_the_groups_is_the_same(stage: Stage) -> None:
    options = ("--offsets-decoder", "--deep-iteration")
    dump_by_path = stage.dump_of(".log", topic=CONSUMER_OFFSETS_TOPIC, options=options).files
    expected = [
        as_dumped.dumped_offset(line)
        for path in sorted(dump_by_path)
        for line in dump_by_path[path]
        if line.startswith(RECORD) and " key: {" in line
    ]
    rows = stage.rows("offsets", "segment_base_offset", "offset")
    offset_values = [as_dumped.offset_values(row) for row in rows if row["problem"] is None]
    assert sum(record["type"] == 1 for record in expected) > 1
    assert sorted(map(repr, offset_values)) == sorted(map(repr, expected))


def test_the_tool_tells_of_the_rules_that_say_so(tmp_path: Path) -> None:
    """One damaged replica for each rule. Of a segment that does not begin at 0 it always tells."""
    for damage_number, (damage, expected_text) in enumerate(DAMAGES.values()):
        rule, log_dir = expected_text.split()[0], tmp_path / str(damage_number)
        write_log_dir(log_dir, 1, {"orders-0": busy_log()})
        damage(log_dir / "orders-0")
        lines_by_file = _lines_about(log_dir / "orders-0")
        if rule == Invariant.UNREADABLE_FILE or expected_text.startswith(_BETWEEN):
            continue  # of a snapshot, not of .txnindex; of no more than one segment
        assert bool(lines_by_file) is (DUMP_LOG in REPORTED_BY.get(Invariant(rule), "")), (
            expected_text,
            lines_by_file,
        )


_BETWEEN: Final = ("offset-gap 00000000000000000048", "offset-order 00000000000000000048")


def _lines_about(folder: Path) -> list[str]:
    files = sorted(path for path in folder.iterdir() if path.suffix in (".log", ".snapshot"))
    output, complained = _run([*files], ["--deep-iteration"], may_fail=True)
    lines = output.splitlines()
    unsound_lines = [
        line for line in lines if line.endswith("isvalid: false") or line.startswith("Found ")
    ]
    line_beginnings = ("Non-consecutive offsets in ", "  -1 is followed by ")
    return [
        *unsound_lines,
        *(line for line in complained.splitlines() if not line.startswith(line_beginnings)),
    ]


def test_torn_ends_are_where_the_tool_sees_them(tables: Tables, corpus: Corpus) -> None:
    torn_stage = Stage("torn", tables, Dumps({}), corpus.brokers("torn"))
    cut_by_path = {Path(row.file): row for row in tables.rows("torn", "errors") if row.is_cut}
    assert len(cut_by_path) == len(corpus.stage("torn").damage)
    dump_by_path = _without_front(dump_log(sorted(cut_by_path), may_fail=True).files)
    rows = torn_stage.rows("batches", "segment_base_offset", "position", checkCrc="true")
    lines_by_file = as_dumped.by_file(rows, Suffix.LOG, "segment_base_offset", as_dumped.batch_line)
    for path, cut_row in cut_by_path.items():
        plain_lines = [line for line in dump_by_path[path] if not line.startswith("Found ")]
        whole_lines = [
            plain_line for plain_line in plain_lines if _position(plain_line) < cut_row.position
        ]
        assert lines_by_file.get(path, []) == whole_lines, path
        if cut_row.kind == "crc":
            first_line = next(
                plain_line
                for plain_line in plain_lines
                if _position(plain_line) == cut_row.position
            )
            assert first_line.endswith(" isvalid: false")
        elif cut_row.kind == "torn":
            assert dump_by_path[path][-1].startswith(f"Found {cut_row.size_bytes} invalid bytes")


def _position(line: str) -> int:
    return int(line.partition(" position: ")[2].split()[0])
