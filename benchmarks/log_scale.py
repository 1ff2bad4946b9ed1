"""``python -m benchmarks.log_scale``: how ``logs find-hanging`` grows with bytes, 0.1 to 10 GB, and
with files, 1 to 500,000 of 189 bytes. The whole command is run, on a directory of a broker that was
killed and left no snapshots, so that everything is read.

CPU and memory are those of all its processes, Spark's as well, which is started where much is read.
``--write`` puts table and picture into the documentation.
"""

from __future__ import annotations

import argparse
import io
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.log_data import Scale, make_small_batches_log
from benchmarks.log_growth import RESULTS_PAGE, ROOT, replace_section
from benchmarks.log_plan import make_segments
from benchmarks.pipeline import link_log_part
from benchmarks.process_tree import FinishedCommand, run_command
from benchmarks.whole_command import AS_INSTALLED

SIZES_MB: Final = (100, 500, 2_000, 10_000)
SEGMENT_COUNTS: Final = (1, 100, 1_000, 10_000, 100_000, 500_000)
PLOT_FILE: Final = ROOT / "docs" / "plots" / "find-hanging-scale.svg"
BEGIN_MARK: Final = "<!-- measured: python -m benchmarks.log_scale --write -->\n"
END_MARK: Final = "<!-- end of the scales that were measured -->\n"


class _ScaleReportSource(msgspec.Struct, frozen=True):
    with_spark: bool


class _ScaleReport(msgspec.Struct, frozen=True):
    source: _ScaleReportSource


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.log_scale")
    parser.add_argument("--most-mb", type=int, default=SIZES_MB[-1])
    parser.add_argument("--most-files", type=int, default=SEGMENT_COUNTS[-1])
    parser.add_argument("--write", action="store_true", help="put the figures into the docs")
    options = parser.parse_args(arguments)
    sized_searches_by_unit: dict[str, list[tuple[int, FinishedCommand]]] = {"MB": [], "files": []}
    for size_mb in (candidate_mb for candidate_mb in SIZES_MB if candidate_mb <= options.most_mb):
        directory, byte_count = link_log_part(make_small_batches_log(Scale()), size_mb * 1_000_000)
        sized_searches_by_unit["MB"].append((byte_count // 1_000_000, _search_directory(directory)))
        shutil.rmtree(directory)
        print(_table_row("MB", *sized_searches_by_unit["MB"][-1]), file=sys.stderr, flush=True)
    for file_count in (
        candidate_count
        for candidate_count in SEGMENT_COUNTS
        if candidate_count <= options.most_files
    ):
        with tempfile.TemporaryDirectory(prefix="txnsim-scale-") as scratch:
            directory = make_segments(Path(scratch) / "broker-1", file_count)
            sized_searches_by_unit["files"].append((file_count, _search_directory(directory)))
        print(
            _table_row("files", *sized_searches_by_unit["files"][-1]), file=sys.stderr, flush=True
        )
    table = "\n".join([_HEAD, *_table_rows(sized_searches_by_unit)]) + "\n"
    print(table, end="")
    if options.write:
        RESULTS_PAGE.write_text(
            replace_section(RESULTS_PAGE.read_text("utf-8"), table, BEGIN_MARK, END_MARK), "utf-8"
        )
        PLOT_FILE.write_bytes(_draw_scale_svg(sized_searches_by_unit))
    return 0


def _search_directory(directory: Path) -> FinishedCommand:
    command = ["logs", "find-hanging", "--json", str(directory)]
    finished_search = run_command([sys.executable, "-c", AS_INSTALLED, *command])
    assert finished_search.status in (0, 3, 4), (
        finished_search.status
    )  # nothing, hanging, or not known without a log
    return finished_search


_HEAD: Final = (
    "| log | by | seconds | CPU, s | memory of the driver, MB | of Java, MB | load |\n|"
    + 7 * " --- |"
)


def _table_rows(
    sized_searches_by_unit: dict[str, list[tuple[int, FinishedCommand]]],
) -> Iterator[str]:
    for unit, sized_searches in sized_searches_by_unit.items():
        for size_or_count, finished_search in sized_searches:
            yield _table_row(unit, size_or_count, finished_search)


def _table_row(unit: str, size_or_count: int, finished_search: FinishedCommand) -> str:
    report = msgspec.json.decode(finished_search.stdout, type=_ScaleReport)
    row_cells = (
        f"{size_or_count:,} {unit}",
        "Spark" if report.source.with_spark else "here",
        f"{finished_search.seconds:.1f}",
        f"{finished_search.cpu_s:.1f}",
        f"{finished_search.own_mb:.0f}",
        f"{finished_search.java_mb:.0f}" if finished_search.java_mb else "",
        f"{finished_search.load_average:.1f}",
    )
    return f"| {' | '.join(row_cells)} |"


def _draw_scale_svg(sized_searches_by_unit: dict[str, list[tuple[int, FinishedCommand]]]) -> bytes:
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with matplotlib.rc_context(
        {"svg.hashsalt": "txnsim", "svg.fonttype": "none", "font.size": 9.0}
    ):
        figure = Figure(figsize=(7.2, 2.8), layout="constrained")
        FigureCanvasSVG(figure)
        for (unit, sized_searches), axes in zip(
            sized_searches_by_unit.items(), figure.subplots(1, 2), strict=True
        ):
            sizes_or_counts = [size_or_count for size_or_count, _ in sized_searches]
            axes.plot(
                sizes_or_counts,
                [finished_search.seconds for _, finished_search in sized_searches],
                "o-",
                color="#1f6f8b",
            )
            axes.plot(
                sizes_or_counts,
                [finished_search.cpu_s for _, finished_search in sized_searches],
                "o--",
                color="#b5532a",
            )
            axes.set_xlabel("MB of log" if unit == "MB" else "segments of 189 bytes")
            axes.set_xlim(left=0)
            axes.set_ylim(bottom=0)
            axes.grid(alpha=0.3)
        figure.axes[0].set_ylabel("seconds; dashed: CPU")
        svg_buffer = io.BytesIO()
        figure.savefig(svg_buffer, format="svg", metadata={"Date": None, "Creator": None})
    return svg_buffer.getvalue()


if __name__ == "__main__":
    sys.exit(main())
