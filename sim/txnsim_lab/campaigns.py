"""Campaigns: very many seeds, played in processes of this machine or on another engine. The result
is one table: a folder of Parquet files. A file has a range of seeds, and is written completely or
not at all. So a campaign that was stopped or killed continues with the seeds that no file has, and
counts no seed twice. This process writes the files; workers only compute. The first seed of each
kind of finding is then examined, on the workers as well.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

import msgspec

from txnsim import TXNSIM
from txnsim.errors import BadInputError, ConfigError
from txnsim.files import place_when_whole, problem_of, write_whole
from txnsim.on_demand_imports import borrowed
from txnsim_lab.simulation.drawing import SimulationOptions
from txnsim_lab.simulation.play import OVER_LIMIT_KIND
from txnsim_lab.simulation.reports import FindingReport, examine_seed, write_report
from txnsim_lab.simulation.seed_batch import in_pool, prepare_worker, row_of, without_verdict

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")

SEED_CPU_SECONDS: Final = 60.0
"""Limit of processor time of one run in seconds; an ordinary run takes less than one."""
SEEDS_PER_TASK: Final = 8
"""Number of seeds in one task of Spark, which takes some seconds."""
SEEDS_PER_FILE: Final = 1_000
"""Number of seeds in one file."""
HEALTHY_VERDICT: Final = "healthy"
FOUND_VERDICT: Final = "found"
FAILED_VERDICT: Final = "failed"
NO_CLUSTER: Final = "no-cluster"
"""Kind of a row whose cluster can't be configured as the plan needs."""
FINDINGS_FOLDER: Final = "findings"
"""Name of the folder with the reports on findings."""
_KINDS_WITHOUT_VERDICT: Final = (OVER_LIMIT_KIND, NO_CLUSTER)
_HEAD_FILE_NAME: Final = "campaign.json"
_SEEDS_FILE_RE: Final = re.compile(r"seeds-(\d+)-(\d+)\.parquet")

_CELLS_TYPE: Final = "array<struct<state:string,asked:string,outcome:string,times:bigint>>"


class CampaignColumn(NamedTuple):
    """A column of a campaign's table of seeds: name, type and meaning."""

    name: str
    type: str
    meaning: str


TABLE_COLUMNS: Final = (
    CampaignColumn("seed", "bigint", "Of all chance in the run."),
    CampaignColumn("mode", "string", "The transaction protocol: `V-`, `V+`, `TV2` or `TV2+`."),
    CampaignColumn(
        "verdict",
        "string",
        f"`{HEALTHY_VERDICT}`, `{FOUND_VERDICT}`, or `{FAILED_VERDICT}`: the run came to no"
        " verdict.",
    ),
    CampaignColumn("anomalies", "array<string>", "What was found, each kind once."),
    CampaignColumn(
        "causes",
        "array<string>",
        "What together makes it healthy (`z27`); none where nothing known does.",
    ),
    CampaignColumn("because", "array<string>", "A sentence for each finding."),
    CampaignColumn(
        "run_hash", "string", "Of every act, its time and its answer: equal for equal runs."
    ),
    CampaignColumn("virtual_ms", "bigint", "How long the run was, in its own time."),
    CampaignColumn("cpu_ms", "bigint", "Processor time."),
    CampaignColumn("acts", "bigint", "How many were begun."),
    CampaignColumn("answered", "bigint", "How many came to something: no error."),
    CampaignColumn("committed", "bigint", "Commits among them."),
    CampaignColumn("struck", "bigint", "What was done to the cluster, and was possible."),
    CampaignColumn(
        "places",
        _CELLS_TYPE,
        "What was exercised: state of the transaction, what was asked for, the outcome.",
    ),
    CampaignColumn("failure", "string", "Why there is no verdict; null where there is one."),
)
"""Columns of the table, which has one row per seed. All except ``cpu_ms`` depend only on the
seed.
"""
TABLE_DDL: Final = ", ".join(
    f"{table_column.name} {table_column.type}" for table_column in TABLE_COLUMNS
)


def table_schema() -> pa.Schema:
    """The table's schema for Arrow."""
    import pyarrow as pa

    place_type = pa.struct(
        [
            *((field_name, pa.string()) for field_name in ("state", "asked", "outcome")),
            ("times", pa.int64()),
        ]
    )
    arrow_type_by_name = {
        "bigint": pa.int64(),
        "string": pa.string(),
        "array<string>": pa.list_(pa.field("element", pa.string())),
        _CELLS_TYPE: pa.list_(pa.field("element", place_type)),
    }
    return pa.schema(
        [
            (table_column.name, arrow_type_by_name[table_column.type])
            for table_column in TABLE_COLUMNS
        ]
    )


class TaskSeeds(msgspec.Struct, frozen=True, kw_only=True):
    """The seeds of one task, and how they are played."""

    seeds: tuple[int, ...]
    options: SimulationOptions
    cpu_s: float = SEED_CPU_SECONDS


class _CampaignHead(msgspec.Struct, frozen=True, kw_only=True):
    """The version and the options with which a folder was made."""

    txnsim: str
    options: SimulationOptions = msgspec.field(name="wanted")


class ExaminedSeed(msgspec.Struct, frozen=True, kw_only=True):
    """A seed that was examined, with its files by name."""

    report: FindingReport
    files: dict[str, bytes]


class FirstSeed(msgspec.Struct, frozen=True, kw_only=True):
    """The first seed of one kind of finding."""

    seed: int
    causes: tuple[str, ...]
    anomalies: tuple[str, ...]
    seeds: int
    """Number of seeds with findings of the kind."""


class CampaignSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Totals over all files of a campaign."""

    seeds: int
    found: int
    failed: int
    virtual_ms: int
    cpu_ms: int
    committed: int
    places: int
    """Number of different cells of the coverage map."""
    firsts: tuple[FirstSeed, ...]
    """The first seed for each cause, and for each kind without a cause."""


ResultRow = Mapping[str, Any]
"""A row of the table."""
CoverageCell = tuple[str, str, str]
PlaySeeds = Callable[[Sequence[range]], Iterator[ResultRow]]
"""Plays seeds; yields their rows in any order."""
ExamineSeeds = Callable[[Sequence[int]], Iterator[ExaminedSeed]]


class CampaignEngine(Protocol):
    """Plays a campaign on other machines than this one: a module ``campaign_engine`` of an
    extension has one (``txnsim.on_demand_imports``).
    """

    def rows(
        self,
        tasks: Sequence[T],
        kind: type[T],
        read: Callable[[T], Iterator[pa.RecordBatch]],
        ddl: str,
    ) -> Iterator[ResultRow]:
        """Play tasks on the workers; yield the rows of the table."""

    def run_each(self, work: Callable[[int], T], seeds: Sequence[int]) -> Iterator[T]:
        """Call ``work`` for each seed on the workers; yield the results in any order."""


def campaign(
    spark: SparkSession,
    workload: str | None,
    seeds: range,
    *,
    as_version: str | None = None,
    rules: Mapping[str, bool] | None = None,
    cpu_s: float = SEED_CPU_SECONDS,
) -> DataFrame:
    """Play a campaign on the workers of a session; returns its table.

    Args:
        spark: The session; its workers must have txnsim.
        workload: A coroutine as ``package.module:name`` that replaces our clients; None for our
            clients.
        seeds: The seeds to play.
        as_version: The release of Kafka; the reference unless given.
        rules: Switches of docs/releases.md to set.
        cpu_s: Limit of processor time of a run in seconds. A run that exceeds it has the result
            ``failed``.

    Raises:
        MissingExtraError: ``txnsim_spark`` is not installed.
    """
    options = SimulationOptions(as_version=as_version, rules=rules or {}, workload=workload)
    tasks = borrowed("txnsim_spark.tasks", "a campaign on Spark")
    table: DataFrame = tasks.run_on_workers(
        spark, _tasks_of_range(seeds, options, cpu_s), TaskSeeds, _play_task, TABLE_DDL
    )
    return table


# Where runs are played


def on_this_machine(
    options: SimulationOptions, *, process_count: int, cpu_s: float
) -> tuple[PlaySeeds, ExamineSeeds]:
    """Make functions that play and examine seeds in processes of this machine."""

    def play(ranges: Sequence[range]) -> Iterator[ResultRow]:
        seeds = (seed for seed_range in ranges for seed in seed_range)
        yield from in_pool(
            partial(result_row, options=options, cpu_s=cpu_s), seeds, process_count=process_count
        )

    return play, lambda seeds: in_pool(
        partial(_examine_seed, options), seeds, process_count=process_count, chunk_size=1
    )


def on_engine(
    engine: CampaignEngine, options: SimulationOptions, *, cpu_s: float
) -> tuple[PlaySeeds, ExamineSeeds]:
    """Make functions that play and examine seeds on an engine, with a job for each range."""

    def play(ranges: Sequence[range]) -> Iterator[ResultRow]:
        for seed_range in ranges:
            yield from engine.rows(
                _tasks_of_range(seed_range, options, cpu_s), TaskSeeds, _play_task, TABLE_DDL
            )

    return play, lambda seeds: engine.run_each(partial(_examine_on_worker, options), seeds)


def _tasks_of_range(seeds: range, options: SimulationOptions, cpu_s: float) -> list[TaskSeeds]:
    return [
        TaskSeeds(seeds=tuple(task_seeds), options=options, cpu_s=cpu_s)
        for task_seeds in _task_ranges(seeds)
    ]


def result_row(seed: int, options: SimulationOptions, cpu_s: float) -> ResultRow:
    """Play one seed; its result is a row, even if it fails."""
    try:
        row = row_of(seed, options, cpu_s=cpu_s)
    except ConfigError as error:
        row = without_verdict(seed, NO_CLUSTER, str(error))
    has_verdict = not row.kinds or row.kinds[0] not in _KINDS_WITHOUT_VERDICT
    return {
        "seed": row.seed,
        "mode": row.mode,
        "verdict": (FOUND_VERDICT if row.kinds else HEALTHY_VERDICT)
        if has_verdict
        else FAILED_VERDICT,
        "anomalies": [*row.kinds] if has_verdict else [],
        "causes": [*(row.names or ())],
        "because": [*row.because] if has_verdict else [],
        "run_hash": row.digest,
        **{column_name: getattr(row, column_name) for column_name in _NUMBER_COLUMNS},
        "places": [
            {"state": cell.state, "asked": cell.request, "outcome": cell.outcome, "times": count}
            for cell, count in row.cells
        ],
        "failure": None if has_verdict else row.because[0],
    }


_NUMBER_COLUMNS: Final = ("virtual_ms", "cpu_ms", "acts", "answered", "committed", "struck")


def finding_kind(row: ResultRow) -> tuple[str, ...]:
    """The causes of a row's findings, else their kinds."""
    return tuple(row["causes"] or row["anomalies"])


def coverage_cells(row: ResultRow) -> set[CoverageCell]:
    """What a run exercised: state of the transaction, request, outcome."""
    return {(cell["state"], cell["asked"], cell["outcome"]) for cell in row["places"]}


def _play_task(task: TaskSeeds) -> Iterator[pa.RecordBatch]:
    """Play the seeds of one task on a worker."""
    import pyarrow as pa

    prepare_worker()
    rows = [result_row(seed, task.options, task.cpu_s) for seed in task.seeds]
    yield pa.RecordBatch.from_pylist(rows, schema=table_schema())


def _examine_on_worker(options: SimulationOptions, seed: int) -> ExaminedSeed:
    prepare_worker()
    return _examine_seed(options, seed)


def _examine_seed(options: SimulationOptions, seed: int) -> ExaminedSeed:
    report, files = examine_seed(seed, options, shrinks=True)
    return ExaminedSeed(report=report, files=files)


def _task_ranges(seeds: range) -> Iterator[range]:
    for start in range(0, len(seeds), SEEDS_PER_TASK):
        yield seeds[start : start + SEEDS_PER_TASK]


# The folder


class CampaignFolder:
    """A folder that keeps a campaign's options and played seeds, so that it can be continued."""

    def __init__(self, path: Path, options: SimulationOptions) -> None:
        """Open the folder, or create it.

        Args:
            path: The folder, which may not exist yet.
            options: How the seeds are played.

        Raises:
            BadInputError: The folder has another campaign, or other files.
            ConfigError: The folder can't be written.
        """
        self._path = path
        self.options = options
        head = msgspec.json.encode(_CampaignHead(txnsim=TXNSIM, options=options))
        head_file = path / _HEAD_FILE_NAME
        if head_file.is_file():
            if head_file.read_bytes() != head:
                raise BadInputError(f"{path} has another campaign: {head_file.read_text()}")
            return
        if path.exists() and any(path.iterdir()):
            raise BadInputError(
                f"{path} is no campaign: it has no {_HEAD_FILE_NAME}; name another folder"
            )
        path.mkdir(parents=True, exist_ok=True)
        write_whole(head_file, head)

    @classmethod
    def open(cls, path: Path) -> CampaignFolder:
        """Open an existing folder for reading.

        Raises:
            BadInputError: The folder has no campaign.
        """
        try:
            campaign_head = msgspec.json.decode(
                (path / _HEAD_FILE_NAME).read_bytes(), type=_CampaignHead
            )
        except (OSError, msgspec.MsgspecError, RecursionError) as error:
            raise BadInputError(
                f"{path} is no campaign: {_HEAD_FILE_NAME}: {problem_of(error)}"
            ) from None
        folder = cls.__new__(cls)
        folder._path, folder.options = path, campaign_head.options
        return folder

    def missing_ranges(self, seeds: range, *, file_size: int = SEEDS_PER_FILE) -> list[range]:
        """Ranges of ``seeds`` that no file has yet, cut at multiples of the file size."""
        file_ranges = sorted(self._ranges_of_files(), key=lambda file_seeds: file_seeds.start)
        ranges_missing: list[range] = []
        next_seed = seeds.start
        for file_seeds in [*file_ranges, range(seeds.stop, seeds.stop)]:
            while next_seed < min(file_seeds.start, seeds.stop):
                range_end = min(
                    file_seeds.start, seeds.stop, (next_seed // file_size + 1) * file_size
                )
                ranges_missing.append(range(next_seed, range_end))
                next_seed = range_end
            next_seed = max(next_seed, file_seeds.stop)
        return ranges_missing

    def write_rows(
        self, ranges: Sequence[range], result_rows: Iterable[ResultRow]
    ) -> Iterator[range]:
        """Write each range as soon as all its rows are there, and then yield it.

        Args:
            ranges: The result of ``missing_ranges``, or a part of it in that order.
            result_rows: A row for each seed of the ranges.

        Raises:
            ConfigError: A file can't be written.
        """
        rows_by_range: dict[range, list[ResultRow]] = {}
        first_seeds_of_ranges = [planned_range.start for planned_range in ranges]
        for row in result_rows:
            seed_range = ranges[bisect_right(first_seeds_of_ranges, row["seed"]) - 1]
            rows = rows_by_range.setdefault(seed_range, [])
            rows.append(row)
            if len(rows) == len(seed_range):
                self._write_range(seed_range, sorted(rows, key=lambda row: int(row["seed"])))
                del rows_by_range[seed_range]
                yield seed_range

    def read_table(self) -> pa.Table:
        """Read all rows, sorted by seed.

        Raises:
            BadInputError: A seed is in two files.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        tables = [pq.read_table(seeds_file) for seeds_file in self._files()]
        return pa.concat_tables(tables) if tables else table_schema().empty_table()

    def read_rows(self, columns: Sequence[str]) -> Iterator[ResultRow]:
        """Yield the rows sorted by seed; read one file at a time, as there may be millions of rows.

        Raises:
            BadInputError: A seed is in two files.
        """
        import pyarrow.parquet as pq

        for seeds_file in self._files():
            yield from pq.read_table(seeds_file, columns=[*columns]).to_pylist()

    def summarize(self) -> CampaignSummary:
        """Totals over all files.

        Raises:
            BadInputError: A seed is in two files.
        """
        rows_by_kind: dict[tuple[str, ...], list[ResultRow]] = {}
        total_counts = Counter[str]()
        covered_cells: set[CoverageCell] = set()
        number_columns = ("virtual_ms", "cpu_ms", "committed")
        for row in self.read_rows(
            ("seed", "verdict", "anomalies", "causes", *number_columns, "places")
        ):
            total_counts.update(
                {
                    row["verdict"]: 1,
                    **{column_name: row[column_name] for column_name in number_columns},
                }
            )
            covered_cells |= coverage_cells(row)
            if row["verdict"] == FOUND_VERDICT:
                rows_by_kind.setdefault(finding_kind(row), []).append(row)
        return CampaignSummary(
            seeds=sum(
                total_counts[verdict]
                for verdict in (HEALTHY_VERDICT, FOUND_VERDICT, FAILED_VERDICT)
            ),
            found=total_counts[FOUND_VERDICT],
            failed=total_counts[FAILED_VERDICT],
            virtual_ms=total_counts["virtual_ms"],
            cpu_ms=total_counts["cpu_ms"],
            committed=total_counts["committed"],
            places=len(covered_cells),
            firsts=tuple(
                FirstSeed(
                    seed=kind_rows[0]["seed"],
                    causes=tuple(kind_rows[0]["causes"]),
                    anomalies=tuple(
                        sorted(
                            {anomaly_name for row in kind_rows for anomaly_name in row["anomalies"]}
                        )
                    ),
                    seeds=len(kind_rows),
                )
                for kind_rows in rows_by_kind.values()
            ),
        )

    def examine_seeds(self, seeds: Sequence[int], examine: ExamineSeeds) -> list[FindingReport]:
        """Examine seeds in order, except those that have a report already.

        Raises:
            ConfigError: A file can't be written.
        """
        report_files = {
            seed: self._path / FINDINGS_FOLDER / f"seed-{seed}.report.json" for seed in seeds
        }
        for examined_seed in examine(
            [seed for seed, report_file in report_files.items() if not report_file.is_file()]
        ):
            report = write_report(
                examined_seed.report, examined_seed.files, folder=self._path / FINDINGS_FOLDER
            )
            report_json = msgspec.json.format(msgspec.json.encode(report))
            write_report(
                report,
                {report_files[report.seed].name: report_json},
                folder=self._path / FINDINGS_FOLDER,
            )
        return [
            msgspec.json.decode(report_file.read_bytes(), type=FindingReport)
            for report_file in report_files.values()
        ]

    def _files(self) -> list[Path]:
        file_ranges = sorted(self._ranges_of_files(), key=lambda seeds: seeds.start)
        for seeds, later_seeds in pairwise(file_ranges):
            if later_seeds.start < seeds.stop:
                raise BadInputError(f"{self._path}: two files have the seed {later_seeds.start}")
        return [self._path_of_range(seeds) for seeds in file_ranges]

    def _ranges_of_files(self) -> Iterator[range]:
        for seeds_file in self._path.iterdir():
            match = _SEEDS_FILE_RE.fullmatch(seeds_file.name)
            if match:
                yield range(int(match[1]), int(match[2]))

    def _path_of_range(self, seeds: range) -> Path:
        return self._path / f"seeds-{seeds.start:010}-{seeds.stop:010}.parquet"

    def _write_range(self, seeds: range, rows: Sequence[ResultRow]) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pa.Table.from_pylist(rows, schema=table_schema())
        with place_when_whole(self._path_of_range(seeds)) as parquet_file:
            pq.write_table(table, parquet_file)
