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
from txnsim.files import problem_of, whole, write_whole
from txnsim.on_demand_imports import borrowed
from txnsim.runtime.virtual.reproducible_process import limits_of_process
from txnsim_lab.simulation.drawing import SimulationOptions
from txnsim_lab.simulation.play import OVER_LIMIT, quieten
from txnsim_lab.simulation.reports import Report, examine_seed, write_report
from txnsim_lab.simulation.seed_batch import in_pool, row_of, without_verdict

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")

SEED_S: Final = 60.0
"""Limit of processor time of one run in seconds; an ordinary run takes less than one."""
TASK_SEEDS: Final = 8
"""Number of seeds in one task of Spark, which takes some seconds."""
FILE_SEEDS: Final = 1_000
"""Number of seeds in one file."""
HEALTHY: Final = "healthy"
FOUND: Final = "found"
FAILED: Final = "failed"
NO_CLUSTER: Final = "no-cluster"
"""Kind of a row whose cluster can't be configured as the plan needs."""
FINDINGS: Final = "findings"
"""Name of the folder with the reports on findings."""
_WITHOUT_VERDICT: Final = (OVER_LIMIT, NO_CLUSTER)
_HEAD: Final = "campaign.json"
_FILE: Final = re.compile(r"seeds-(\d+)-(\d+)\.parquet")

_PLACES_TYPE: Final = "array<struct<state:string,asked:string,outcome:string,times:bigint>>"


class Column(NamedTuple):
    """A column of the table."""

    name: str
    type: str
    meaning: str


COLUMNS: Final = (
    Column("seed", "bigint", "Of all chance in the run."),
    Column("mode", "string", "The transaction protocol: `V-`, `V+`, `TV2` or `TV2+`."),
    Column(
        "verdict",
        "string",
        f"`{HEALTHY}`, `{FOUND}`, or `{FAILED}`: the run came to no verdict.",
    ),
    Column("anomalies", "array<string>", "What was found, each kind once."),
    Column(
        "causes",
        "array<string>",
        "What together makes it healthy (`z27`); none where nothing known does.",
    ),
    Column("because", "array<string>", "A sentence for each finding."),
    Column("run_hash", "string", "Of every act, its time and its answer: equal for equal runs."),
    Column("virtual_ms", "bigint", "How long the run was, in its own time."),
    Column("cpu_ms", "bigint", "Processor time."),
    Column("acts", "bigint", "How many were begun."),
    Column("answered", "bigint", "How many came to something: no error."),
    Column("committed", "bigint", "Commits among them."),
    Column("struck", "bigint", "What was done to the cluster, and was possible."),
    Column(
        "places",
        _PLACES_TYPE,
        "What was exercised: state of the transaction, what was asked for, the outcome.",
    ),
    Column("failure", "string", "Why there is no verdict; null where there is one."),
)
"""Columns of the table, which has one row per seed. All except ``cpu_ms`` depend only on the
seed.
"""
DDL: Final = ", ".join(f"{column.name} {column.type}" for column in COLUMNS)


def schema() -> pa.Schema:
    """The table's schema for Arrow."""
    import pyarrow as pa

    place_type = pa.struct(
        [*((name, pa.string()) for name in ("state", "asked", "outcome")), ("times", pa.int64())]
    )
    types = {
        "bigint": pa.int64(),
        "string": pa.string(),
        "array<string>": pa.list_(pa.field("element", pa.string())),
        _PLACES_TYPE: pa.list_(pa.field("element", place_type)),
    }
    return pa.schema([(column.name, types[column.type]) for column in COLUMNS])


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """The seeds of one task, and how they are played."""

    seeds: tuple[int, ...]
    options: SimulationOptions
    cpu_s: float = SEED_S


class _Head(msgspec.Struct, frozen=True, kw_only=True):
    """The version and the options with which a folder was made."""

    txnsim: str
    options: SimulationOptions = msgspec.field(name="wanted")


class ExaminedSeed(msgspec.Struct, frozen=True, kw_only=True):
    """A seed that was examined, with its files by name."""

    report: Report
    files: dict[str, bytes]


class First(msgspec.Struct, frozen=True, kw_only=True):
    """The first seed of one kind of finding."""

    seed: int
    causes: tuple[str, ...]
    anomalies: tuple[str, ...]
    seeds: int
    """Number of seeds with findings of the kind."""


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """Totals over all files of a campaign."""

    seeds: int
    found: int
    failed: int
    virtual_ms: int
    cpu_ms: int
    committed: int
    places: int
    """Number of different cells of the coverage map."""
    firsts: tuple[First, ...]
    """The first seed for each cause, and for each kind without a cause."""


Record = Mapping[str, Any]
"""A row of the table."""
Place = tuple[str, str, str]
Play = Callable[[Sequence[range]], Iterator[Record]]
"""Plays seeds; yields their rows in any order."""
Examine = Callable[[Sequence[int]], Iterator[ExaminedSeed]]


class Engine(Protocol):
    """Plays a campaign on other machines than this one: a module ``campaign_engine`` of an
    extension has one (``txnsim.on_demand_imports``).
    """

    def rows(
        self,
        tasks: Sequence[T],
        kind: type[T],
        read: Callable[[T], Iterator[pa.RecordBatch]],
        ddl: str,
    ) -> Iterator[Record]:
        """Plays tasks on the workers; yields the rows."""

    def run_each(self, work: Callable[[int], T], seeds: Sequence[int]) -> Iterator[T]:
        """Call a function for each seed on the workers; yields the results."""


def campaign(
    spark: SparkSession,
    workload: str | None,
    seeds: range,
    *,
    as_version: str | None = None,
    rules: Mapping[str, bool] | None = None,
    cpu_s: float = SEED_S,
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
        spark, _shares(seeds, options, cpu_s), Share, _play_share, DDL
    )
    return table


# Where runs are played


def on_this_machine(options: SimulationOptions, *, jobs: int, cpu_s: float) -> tuple[Play, Examine]:
    """Plays seeds in processes of this machine."""

    def play(ranges: Sequence[range]) -> Iterator[Record]:
        seeds = (seed for part in ranges for seed in part)
        yield from in_pool(partial(record_of, options=options, cpu_s=cpu_s), seeds, jobs=jobs)

    return play, lambda seeds: in_pool(
        partial(_examine_seed, options), seeds, jobs=jobs, chunk_size=1
    )


def elsewhere(engine: Engine, options: SimulationOptions, *, cpu_s: float) -> tuple[Play, Examine]:
    """Plays seeds on an engine, with a job for each range."""

    def play(ranges: Sequence[range]) -> Iterator[Record]:
        for part in ranges:
            yield from engine.rows(_shares(part, options, cpu_s), Share, _play_share, DDL)

    return play, lambda seeds: engine.run_each(partial(_examine_on_worker, options), seeds)


def _shares(seeds: range, options: SimulationOptions, cpu_s: float) -> list[Share]:
    return [Share(seeds=tuple(part), options=options, cpu_s=cpu_s) for part in _task_ranges(seeds)]


def record_of(seed: int, options: SimulationOptions, cpu_s: float) -> Record:
    """Play one seed; its result is a row, even if it fails."""
    try:
        row = row_of(seed, options, cpu_s=cpu_s)
    except ConfigError as error:
        row = without_verdict(seed, NO_CLUSTER, str(error))
    is_over = not row.kinds or row.kinds[0] not in _WITHOUT_VERDICT
    return {
        "seed": row.seed,
        "mode": row.mode,
        "verdict": (FOUND if row.kinds else HEALTHY) if is_over else FAILED,
        "anomalies": [*row.kinds] if is_over else [],
        "causes": [*(row.names or ())],
        "because": [*row.because] if is_over else [],
        "run_hash": row.digest,
        **{name: getattr(row, name) for name in _NUMBERS},
        "places": [
            {"state": cell.state, "asked": cell.request, "outcome": cell.outcome, "times": times}
            for cell, times in row.cells
        ],
        "failure": None if is_over else row.because[0],
    }


_NUMBERS: Final = ("virtual_ms", "cpu_ms", "acts", "answered", "committed", "struck")


def group_of(row: Record) -> tuple[str, ...]:
    """The causes of a row's findings, else their kinds."""
    return tuple(row["causes"] or row["anomalies"])


def places_of(row: Record) -> set[Place]:
    """What a run exercised: state of the transaction, request, outcome."""
    return {(place["state"], place["asked"], place["outcome"]) for place in row["places"]}


def _play_share(share: Share) -> Iterator[pa.RecordBatch]:
    """Play the seeds of one task on a worker."""
    import pyarrow as pa

    _prepare()
    rows = [record_of(seed, share.options, share.cpu_s) for seed in share.seeds]
    yield pa.RecordBatch.from_pylist(rows, schema=schema())


def _examine_on_worker(options: SimulationOptions, seed: int) -> ExaminedSeed:
    _prepare()
    return _examine_seed(options, seed)


def _examine_seed(options: SimulationOptions, seed: int) -> ExaminedSeed:
    report, files = examine_seed(seed, options, shrinks=True)
    return ExaminedSeed(report=report, files=files)


def _prepare() -> None:
    """Prepare a worker: it logs nothing, and its hashes of strings are deterministic."""
    quieten()
    for limit in limits_of_process():
        if "PYTHONHASHSEED" in limit:
            raise ConfigError(f"a worker of Spark can't repeat runs: {limit}")


def _task_ranges(seeds: range) -> Iterator[range]:
    for start in range(0, len(seeds), TASK_SEEDS):
        yield seeds[start : start + TASK_SEEDS]


# The folder


class Folder:
    """The folder of a campaign."""

    def __init__(self, path: Path, options: SimulationOptions) -> None:
        """Open the folder, or create it.

        Args:
            path: The folder, which may not exist yet.
            options: The user's choices.

        Raises:
            BadInputError: The folder has another campaign, or other files.
            ConfigError: The folder can't be written.
        """
        self._path = path
        self.wanted = options
        head = msgspec.json.encode(_Head(txnsim=TXNSIM, options=options))
        file = path / _HEAD
        if file.is_file():
            if file.read_bytes() != head:
                raise BadInputError(f"{path} has another campaign: {file.read_text()}")
            return
        if path.exists() and any(path.iterdir()):
            raise BadInputError(f"{path} is no campaign: it has no {_HEAD}; name another folder")
        path.mkdir(parents=True, exist_ok=True)
        write_whole(file, head)

    @classmethod
    def open(cls, path: Path) -> Folder:
        """Open an existing folder for reading.

        Raises:
            BadInputError: The folder has no campaign.
        """
        try:
            head = msgspec.json.decode((path / _HEAD).read_bytes(), type=_Head)
        except (OSError, msgspec.MsgspecError) as error:
            raise BadInputError(f"{path} is no campaign: {_HEAD}: {problem_of(error)}") from None
        folder = cls.__new__(cls)
        folder._path, folder.wanted = path, head.options
        return folder

    def missing(self, seeds: range, *, size: int = FILE_SEEDS) -> list[range]:
        """Ranges of the given seeds that no file has, cut at multiples of the file size."""
        file_ranges = sorted(self._ranges(), key=lambda file_seeds: file_seeds.start)
        gaps: list[range] = []
        next_seed = seeds.start
        for file_seeds in [*file_ranges, range(seeds.stop, seeds.stop)]:
            while next_seed < min(file_seeds.start, seeds.stop):
                end = min(file_seeds.start, seeds.stop, (next_seed // size + 1) * size)
                gaps.append(range(next_seed, end))
                next_seed = end
            next_seed = max(next_seed, file_seeds.stop)
        return gaps

    def take(self, ranges: Sequence[range], records: Iterable[Record]) -> Iterator[range]:
        """Write each range as soon as all its rows are there, and then yield it.

        Args:
            ranges: The result of ``missing``, or a part of it in that order.
            records: A row for each seed of the ranges.

        Raises:
            ConfigError: A file can't be written.
        """
        rows_by_range: dict[range, list[Record]] = {}
        starts = [part.start for part in ranges]
        for record in records:
            where = ranges[bisect_right(starts, record["seed"]) - 1]
            rows = rows_by_range.setdefault(where, [])
            rows.append(record)
            if len(rows) == len(where):
                self._write(where, sorted(rows, key=lambda row: int(row["seed"])))
                del rows_by_range[where]
                yield where

    def read(self) -> pa.Table:
        """All rows, sorted by seed.

        Raises:
            BadInputError: A seed is in two files.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        tables = [pq.read_table(file) for file in self._files()]
        return pa.concat_tables(tables) if tables else schema().empty_table()

    def records(self, columns: Sequence[str]) -> Iterator[Record]:
        """Yield the rows sorted by seed; read one file at a time, as there may be millions of rows.

        Raises:
            BadInputError: A seed is in two files.
        """
        import pyarrow.parquet as pq

        for file in self._files():
            yield from pq.read_table(file, columns=[*columns]).to_pylist()

    def summary(self) -> Summary:
        """Totals over all files.

        Raises:
            BadInputError: A seed is in two files.
        """
        groups: dict[tuple[str, ...], list[Record]] = {}
        totals = Counter[str]()
        places: set[Place] = set()
        numbers = ("virtual_ms", "cpu_ms", "committed")
        for row in self.records(("seed", "verdict", "anomalies", "causes", *numbers, "places")):
            totals.update({row["verdict"]: 1, **{name: row[name] for name in numbers}})
            places |= places_of(row)
            if row["verdict"] == FOUND:
                groups.setdefault(group_of(row), []).append(row)
        return Summary(
            seeds=sum(totals[verdict] for verdict in (HEALTHY, FOUND, FAILED)),
            found=totals[FOUND],
            failed=totals[FAILED],
            virtual_ms=totals["virtual_ms"],
            cpu_ms=totals["cpu_ms"],
            committed=totals["committed"],
            places=len(places),
            firsts=tuple(
                First(
                    seed=alike[0]["seed"],
                    causes=tuple(alike[0]["causes"]),
                    anomalies=tuple(sorted({kind for row in alike for kind in row["anomalies"]})),
                    seeds=len(alike),
                )
                for alike in groups.values()
            ),
        )

    def reports(self, seeds: Sequence[int], examine: Examine) -> list[Report]:
        """Examine seeds in order, except those that have a report already.

        Raises:
            ConfigError: A file can't be written.
        """
        report_files = {seed: self._path / FINDINGS / f"seed-{seed}.report.json" for seed in seeds}
        for look in examine([seed for seed, file in report_files.items() if not file.is_file()]):
            report = write_report(look.report, look.files, folder=self._path / FINDINGS)
            packed = msgspec.json.format(msgspec.json.encode(report))
            write_report(
                report, {report_files[report.seed].name: packed}, folder=self._path / FINDINGS
            )
        return [
            msgspec.json.decode(file.read_bytes(), type=Report) for file in report_files.values()
        ]

    def _files(self) -> list[Path]:
        file_ranges = sorted(self._ranges(), key=lambda seeds: seeds.start)
        for seeds, later_seeds in pairwise(file_ranges):
            if later_seeds.start < seeds.stop:
                raise BadInputError(f"{self._path}: two files have the seed {later_seeds.start}")
        return [self._file(seeds) for seeds in file_ranges]

    def _ranges(self) -> Iterator[range]:
        for file in self._path.iterdir():
            match = _FILE.fullmatch(file.name)
            if match:
                yield range(int(match[1]), int(match[2]))

    def _file(self, seeds: range) -> Path:
        return self._path / f"seeds-{seeds.start:010}-{seeds.stop:010}.parquet"

    def _write(self, seeds: range, rows: Sequence[Record]) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pa.Table.from_pylist(rows, schema=schema())
        with whole(self._file(seeds)) as part:
            pq.write_table(table, part)
