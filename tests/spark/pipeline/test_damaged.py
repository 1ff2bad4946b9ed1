"""``logs find-hanging`` on damaged directories (``tests.spark.pipeline.damaged``): it never
crashes, names what it can't read, suggests no command on broken evidence, and lists what a real
broker lists. The last tests, and those of unreadable files, are about ``logs verify``.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import pytest

from tests.spark.pipeline.damaged import files
from tests.spark.pipeline.damaged.ask import Row, answers
from tests.spark.pipeline.damaged.make import unpack_stages
from tests.spark.pipeline.damaged.recipes import QUIET, SPREAD, Variant, make_variant, variants
from tests.support.engines import no_session, verify_here
from tests.support.log_tables import write_dense_index
from txnsim.cli.main import main
from txnsim.storage import names
from txnsim.txn.open_txn_verdict import OpenTxnStatus
from txnsim_spark import engine, planning
from txnsim_spark.forensics._evidence import Status
from txnsim_spark.forensics._read_compiled import walk_segments
from txnsim_spark.forensics._read_notes import Note, NoteKind
from txnsim_spark.forensics.find_hanging import NOT_JUDGED, DirectoryReader, Search, find_hanging
from txnsim_spark.forensics.findings import Finding, Report
from txnsim_spark.scan.sections import in_sections
from txnsim_spark.scan.segments import SegmentFile
from txnsim_spark.soundness.verify import plan_verification
from txnsim_spark.soundness.violations import Invariant, Severity, Violation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VARIANTS: Final = {variant.name: variant for variant in variants()}
ANSWERS: Final = answers()
ASKED_MS: Final = 1_795_260_000_000
"""Time of the search: some hours after the directory was made."""
MINUTE: Final = 60_000
LINES_MAX: Final = 6
"""Greatest number of lines that ``verify`` prints for one flipped bit."""
FIVE: Final = {
    ("orders", 0, 9),
    ("orders", 2, 0),
    ("payments", 0, 0),
    ("payments", 1, 0),
    ("stock", 0, 0),
}
"""The hanging transactions: topic, partition, start offset."""
UNTOLD: Final = {
    "clean/snapshot-start-offset": "a forged snapshot, its CRC right",
    "killed/producer-id-with-right-crc": "a forged marker, its CRC right",
    "clean/replica-under-another-name": "the folder of stock-0 is called stock-1",
}
"""Damage that no file shows: a real broker lists a transaction that does not hang, and so do we."""
CONVICTED: Final = {
    **UNTOLD,
    "clean/snapshot-of-another": "the evidence says that the snapshot may be of another partition",
    "killed/control-bit": "a starting broker cuts the marker off, and the transaction hangs then",
    "killed/cut-in-header": "the same",
    "killed/producer-id-of-a-marker": "the same",
}
"""Damage after which a transaction is reported as hanging that did not hang before."""


def mark_of(name: str) -> pytest.MarkDecorator:
    """Mark of a test that runs on all variants: a variant after a kill runs only in a thorough run
    if the same damage after an orderly stop is tested.
    """
    stop, _, damage = name.partition("/")
    is_twin = stop == "killed" and f"clean/{damage}" in VARIANTS
    return pytest.mark.thorough if is_twin else pytest.mark.slow


every_variant = pytest.mark.parametrize(
    "log_dir",
    [pytest.param(variant, marks=mark_of(variant), id=variant) for variant in VARIANTS],
    indirect=True,
)


@pytest.fixture(scope="session")
def kept_stages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The kept directory as files; not to be changed."""
    return unpack_stages(tmp_path_factory.mktemp("kept"))


@pytest.fixture(scope="module")
def log_dir(
    request: pytest.FixtureRequest, kept_stages: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The variant of a test, made once for all its tests; not to be changed."""
    variant: Variant = VARIANTS[request.param]
    return make_variant(variant, kept_stages, tmp_path_factory.mktemp("variant") / "broker-1")


@pytest.fixture(scope="module")
def report(log_dir: Path) -> Report:
    """Findings in the variant, read in this process, with snapshots."""
    return report_on(log_dir)


def report_on(log_dir: Path, **values: object) -> Report:
    search = Search(
        paths=(log_dir,),
        as_of_ms=ASKED_MS,
        now_ms=ASKED_MS,
        max_transaction_timeout_ms=MINUTE,
    )
    return find_hanging(msgspec.structs.replace(search, **values), new_session=no_session)


def partition_of(finding: Finding) -> tuple[str, int, int]:
    return finding.topic, finding.partition, finding.start_offset


def row_of(finding: Finding) -> Row:
    return (
        finding.topic,
        finding.partition,
        finding.producer_id,
        finding.producer_epoch,
        -1 if finding.coordinator_epoch is None else finding.coordinator_epoch,
        finding.start_offset,
        finding.last_timestamp_ms,
    )


def test_there_are_enough() -> None:
    assert len(VARIANTS) >= 80
    assert ANSWERS.keys() <= VARIANTS.keys()
    assert UNTOLD.keys() <= VARIANTS.keys()


@pytest.mark.costly
@pytest.mark.slow
@pytest.mark.parametrize("log_dir", sorted(VARIANTS), indirect=True, ids=sorted(VARIANTS))
def test_no_command_follows_from_broken_evidence(
    log_dir: Path, report: Report, request: pytest.FixtureRequest
) -> None:
    name = request.node.callspec.id
    places_with_command = {
        partition_of(finding) for finding in report.findings if finding.command is not None
    }
    assert places_with_command <= FIVE or name in UNTOLD
    assert {
        partition_of(finding_variant)
        for finding_variant in report.with_verdicts(OpenTxnStatus.HANGING)
    } <= FIVE or name in CONVICTED
    for finding in report.findings:
        is_told = (
            finding.verdict is OpenTxnStatus.HANGING and finding.evidence.status is Status.SOUND
        )
        assert (finding.command is not None) is is_told
        assert bool(finding.evidence.reasons) is (finding.evidence.status is not Status.SOUND)
    answer = ANSWERS.get(name)
    if answer is not None and answer.starts and name not in OTHERWISE:
        listed_rows = {row_of(finding) for finding in report.findings if finding.listed_by_kafka}
        assert listed_rows == set(answer.hanging)


OTHERWISE: Final = {
    "clean/state-half": "the index points behind the end, so a real broker takes the log for empty",
    "clean/snapshots-missing": "after an orderly stop a broker trusts that no snapshot means no "
    "producer: it does not read the segments, and forgets what is open there",
    "clean/partition-metadata-missing": "a broker sets a folder without a topic id aside as stray",
    "clean/log-start-behind-end": "a broker that finds the log's start behind its end empties it",
}
"""Variants for which a real broker lists other transactions, with the reason."""


@pytest.mark.parametrize(
    "log_dir", ["clean/untouched", "killed/untouched"], indirect=True, ids=["clean", "killed"]
)
def test_a_sound_directory_keeps_every_command(log_dir: Path) -> None:
    report = report_on(log_dir)
    hanging = report.with_verdicts(OpenTxnStatus.HANGING)
    assert {partition_of(finding_variant) for finding_variant in hanging} == FIVE
    assert all(
        finding_variant.command is not None and finding_variant.evidence.is_sound
        for finding_variant in hanging
    )
    assert len(report.with_verdicts(OpenTxnStatus.ALIVE)) == 2
    assert (report.source.problems, report.source.cut_off) == ((), ())


@pytest.mark.parametrize("log_dir", ["clean/middle-segment-missing"], indirect=True)
def test_who_accepts_the_damage_is_told_commands_and_what_is_lost(log_dir: Path) -> None:
    assert any(
        finding_variant.command is None
        for finding_variant in report_on(log_dir).with_verdicts(OpenTxnStatus.HANGING)
    )
    report = report_on(log_dir, accepts_damage=True)
    assert report.accepts_damage
    assert all(
        finding_variant.command is not None
        for finding_variant in report.with_verdicts(OpenTxnStatus.HANGING)
    )
    reasons = [reason for finding in report.findings for reason in finding.evidence.reasons]
    assert any(reason.endswith(" are missing") for reason in reasons)


PIPE, FOLDER = "a named pipe, not a file", "a folder, not a file"
LINK, NO_FOLDER = "Too many levels of symbolic links", "Not a directory"
HUGE = "209715200 bytes, no more than 33554432 are read"
UNREADABLE: Final = {
    "clean/segment-is-fifo": (f"00000000000000000018.log: {PIPE}; passed by", PIPE),
    "clean/segment-is-folder": (f"00000000000000000018.log: {FOLDER}; passed by", FOLDER),
    "clean/segment-is-link-to-itself": (f".log: {LINK}; passed by", LINK),
    "clean/state-segment-is-link-to-itself": (f".log: {LINK}; passed by", LINK),
    "clean/folder-is-link-to-itself": (f"stock-1: {LINK}; passed by", f"{LINK}; passed by"),
    "clean/folder-is-file": (f"stock-1: {NO_FOLDER}; passed by", f"{NO_FOLDER}; passed by"),
    "clean/snapshot-is-folder": (f".snapshot: {FOLDER}; an older one is taken", FOLDER),
    "clean/high-watermarks-is-folder": (f"replication-offset-checkpoint: {FOLDER}", FOLDER),
    "clean/high-watermarks-huge": (HUGE, HUGE),
}
"""Messages of ``find-hanging`` and ``verify`` about unreadable files."""


@pytest.mark.parametrize("log_dir", UNREADABLE, indirect=True, ids=UNREADABLE)
def test_what_can_not_be_read_is_named_and_passed_by(
    log_dir: Path, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    of_search, of_verify = UNREADABLE[request.node.callspec.id]
    problems = report_on(log_dir).source.problems
    assert of_search is None or any(of_search in problem_text for problem_text in problems)
    unreadable_violations = [
        variant for variant in found_in(log_dir) if variant.rule is Invariant.UNREADABLE_FILE
    ]
    assert of_verify in [variant.found for variant in unreadable_violations]
    is_beside = of_search is None or ".snapshot" in of_search  # of describe: it reads the oldest
    assert main(["logs", "describe", "--json", str(log_dir)]) == (0 if is_beside else 4)
    topics = {variant["topic"] for variant in json.loads(capsys.readouterr().out)}
    assert topics >= {"orders", "payments"}


# The command


@pytest.mark.parametrize("log_dir", ["clean/untouched"], indirect=True)
def test_what_is_recent_is_shown_with_the_time_to_try(
    log_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    as_of = ["--as-of", "1795242142100"]
    assert main(["logs", "find-hanging", str(log_dir), *as_of]) == 4
    output = capsys.readouterr().out
    assert output.count("recent") == 0
    assert output.count("if no broker ran since then, try --as-of 2026-11-21T") == 5
    assert main(["logs", "find-hanging", str(log_dir), "--as-of", "1795260000000"]) == 3


@pytest.mark.parametrize("log_dir", ["clean/snapshot-of-another"], indirect=True)
def test_the_command_says_why_it_tells_none(
    log_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    as_of = ["--as-of", str(ASKED_MS)]
    assert main(["logs", "find-hanging", str(log_dir), *as_of]) == 3
    output = capsys.readouterr().out
    assert "  evidence damaged: at offset 0 no sound batch of producer" in output
    assert "  no command on this evidence; --accept-damage prints it all the same" in output
    assert main(["logs", "find-hanging", str(log_dir), *as_of, "--accept-damage", "--json"]) == 3
    report = json.loads(capsys.readouterr().out)
    assert (report["schema_version"], report["accepts_damage"]) == (2, True)
    assert all(
        finding["command"] for finding in report["findings"] if finding["verdict"] == "hanging"
    )


@pytest.mark.parametrize("log_dir", ["clean/file-time-in-future"], indirect=True)
def test_a_time_in_the_future_is_named_and_not_used(log_dir: Path) -> None:
    report = report_on(log_dir, as_of_ms=None)
    assert report.as_of_ms <= ASKED_MS
    assert any("a time in the future" in problem_text for problem_text in report.source.problems)


# The compiled walk, here and on Spark


@pytest.mark.costly
@every_variant
def test_places_are_found_alike_in_large_segments(
    log_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report_without_snapshots = report_on(log_dir, uses_snapshots=False)
    monkeypatch.setattr("txnsim_spark.scan.log_seek.INTERPRETED_BYTES_MAX", -1)
    assert report_on(log_dir, uses_snapshots=False) == report_without_snapshots


@pytest.mark.spark
@pytest.mark.nightly
def test_one_job_of_spark_reads_all_of_them_as_they_are_read_here(
    spark: SparkSession, kept_stages: Path, tmp_path: Path
) -> None:
    log_dirs = [
        make_variant(variant, kept_stages, tmp_path / variant_name / "broker-1")
        for variant_name, variant in VARIANTS.items()
    ]
    local_reading = LocalReading(tuple(log_dirs))
    assert len({state.replica.log_dir for state in local_reading.states}) > 100
    local_reading.assert_same(
        DirectoryReader(local_reading.search_by_spark, lambda: spark, lambda _: None)
    )


@pytest.mark.spark
@pytest.mark.nightly
def test_sections_of_segments_tell_what_segments_tell(
    spark: SparkSession,
    kept_stages: Path,
    tmp_path: Path,
    small_sections: list[SegmentFile],
) -> None:
    local_reading = LocalReading(densely_indexed(kept_stages, tmp_path, VARIANTS.values()))
    local_reading.assert_same(
        DirectoryReader(local_reading.search_by_spark, lambda: spark, lambda _: None)
    )
    assert len(small_sections) > 1_000
    sections_read_again = {
        segment.replica.path
        for segment, content in walk_segments(small_sections)
        if isinstance(content, Note) and content.kind is NoteKind.AGAIN
    }
    assert (
        10
        < len(sections_read_again)
        < len({segment_variant.replica.path for segment_variant in small_sections}) / 2
    )


@pytest.mark.costly
@pytest.mark.parametrize(
    "every", [pytest.param(1, marks=pytest.mark.thorough), pytest.param(5, marks=pytest.mark.slow)]
)
def test_processes_tell_what_one_process_tells(
    kept_stages: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    small_sections: list[SegmentFile],
    every: int,
) -> None:
    local_reading = LocalReading(
        densely_indexed(kept_stages, tmp_path, list(VARIANTS.values())[::every])
    )
    monkeypatch.setattr(engine, "PROCESSES_COST_MIN", 0)
    monkeypatch.setattr(engine, "can_fork", lambda: True)  # other tests may leave threads
    monkeypatch.setattr(planning, "_TASK_BYTES_MIN", 2_000)
    monkeypatch.setattr(planning, "_OPEN_BYTES", 0)
    local_search = msgspec.structs.replace(local_reading.search, never_spark=True)
    local_reading.assert_same(DirectoryReader(local_search, no_session, lambda _: None))
    assert not small_sections, "a task of Spark, and a broker that runs, have one process for it"
    local_reading.assert_same(DirectoryReader(local_reading.search, no_session, lambda _: None))
    assert len(small_sections) > 1_000


class LocalReading:
    """Open transactions and notes in log directories, as this process reads them."""

    def __init__(self, log_dirs: tuple[Path, ...]) -> None:
        self.search = Search(paths=log_dirs, uses_snapshots=False)
        self.search_by_spark = msgspec.structs.replace(self.search, with_spark=True)
        local_search = msgspec.structs.replace(self.search, never_spark=True)
        self._reading = DirectoryReader(local_search, no_session, lambda _: None)
        states = self._reading.states()
        self.states = [state for state in states if state.replica.topic not in NOT_JUDGED]
        self._merge_open = self._reading.open_transactions(self.states)

    def assert_same(self, other_reader: DirectoryReader) -> None:
        """Check that another way of reading finds the same open transactions and notes."""
        assert other_reader.open_transactions(self.states) == self._merge_open
        for state in self.states:
            assert other_reader.notes_on(state) == self._reading.notes_on(state)


@pytest.fixture
def small_sections(monkeypatch: pytest.MonkeyPatch) -> list[SegmentFile]:
    """Cut segments every 150 bytes; the list gets the sections."""
    cut_segments: list[SegmentFile] = []

    def in_small_sections(segments: Sequence[SegmentFile], _: int) -> list[SegmentFile]:
        small_sections = in_sections(segments, 150)
        cut_segments.extend(
            segment_variant
            for segment_variant in small_sections
            if segment_variant.section is not None
        )
        return small_sections

    monkeypatch.setattr(planning, "in_sections", in_small_sections)
    return cut_segments


def densely_indexed(
    kept_stages_folder: Path, folder: Path, chosen_variants: Iterable[Variant]
) -> tuple[Path, ...]:
    """These variants, made of logs whose indexes have an entry for each batch."""
    indexed_directory = shutil.copytree(kept_stages_folder, folder / "kept")
    for path in indexed_directory.rglob(f"*{names.Suffix.LOG}"):
        write_dense_index(path)
    return tuple(
        make_variant(variant, indexed_directory, folder / variant.name / "broker-1")
        for variant in chosen_variants
    )


# Soundness


def found_in(log_dir: Path) -> list[Violation]:
    return verify_here(plan_verification([log_dir]))


def errors_in(log_dir: Path) -> list[Violation]:
    return [
        violation_variant
        for violation_variant in found_in(log_dir)
        if violation_variant.severity is Severity.ERROR
    ]


@pytest.mark.parametrize("stage_name", ["clean", "killed"])
def test_what_a_real_broker_left_is_sound(kept_stages: Path, stage_name: str) -> None:
    assert errors_in(kept_stages / stage_name) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "variant_name", ["clean/control-type-unknown", "killed/control-type-unknown-early"]
)
def test_a_control_record_of_an_unknown_type_is_an_error(
    kept_stages: Path, tmp_path: Path, variant_name: str
) -> None:
    violations = errors_in(make_variant(VARIANTS[variant_name], kept_stages, tmp_path / "b"))
    assert Invariant.UNREADABLE_MARKER in {error.rule for error in violations}
    (error,) = [error for error in violations if error.rule is Invariant.UNREADABLE_MARKER]
    assert error.found == "a control record of type 99"


@pytest.mark.slow
def test_one_flipped_bit_gives_few_lines(kept_stages: Path, tmp_path: Path) -> None:
    """The test flips a bit in every sixth byte of a segment, one at a time."""
    log_dir = make_variant(VARIANTS["killed/untouched"], kept_stages, tmp_path / "b")
    for other_folder in log_dir.iterdir():
        if other_folder.is_dir() and other_folder.name not in (QUIET, SPREAD):
            files.to_itself(other_folder)
    expected_number = len(found_in(log_dir))
    path = files.logs(log_dir / QUIET)[1]
    file_bytes = path.read_bytes()
    silent_positions = []
    for position in range(0, len(file_bytes), 6):
        files.flip(path, position)
        added_count = len(found_in(log_dir)) - expected_number
        assert added_count <= LINES_MAX, position
        if not added_count:
            silent_positions.append(position)
        path.write_bytes(file_bytes)
    assert silent_positions == []


@pytest.mark.usefixtures("without_java", "without_session")
def test_the_command_needs_no_spark_for_what_is_little(
    kept_stages: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["logs", "verify", str(kept_stages / "clean")]) == 0
    assert capsys.readouterr().err.endswith(": sound\n")
