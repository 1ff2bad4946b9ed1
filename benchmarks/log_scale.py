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

from benchmarks.log_data import Scale, small_batches
from benchmarks.log_growth import PAGE, ROOT, on_page
from benchmarks.log_plan import made_segments
from benchmarks.pipeline import part_of
from benchmarks.process_tree import Ran, ran
from benchmarks.whole_command import AS_INSTALLED

SIZES_MB: Final = (100, 500, 2_000, 10_000)
COUNTS: Final = (1, 100, 1_000, 10_000, 100_000, 500_000)
PLOT: Final = ROOT / "docs" / "plots" / "find-hanging-scale.svg"
BEGIN: Final = "<!-- measured: python -m benchmarks.log_scale --write -->\n"
END: Final = "<!-- end of the scales that were measured -->\n"


class _Source(msgspec.Struct, frozen=True):
    with_spark: bool


class _Report(msgspec.Struct, frozen=True):
    source: _Source


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.log_scale")
    parser.add_argument("--most-mb", type=int, default=SIZES_MB[-1])
    parser.add_argument("--most-files", type=int, default=COUNTS[-1])
    parser.add_argument("--write", action="store_true", help="put the figures into the docs")
    options = parser.parse_args(arguments)
    found: dict[str, list[tuple[int, Ran]]] = {"MB": [], "files": []}
    for size_mb in (one for one in SIZES_MB if one <= options.most_mb):
        directory, size = part_of(small_batches(Scale()), size_mb * 1_000_000)
        found["MB"].append((size // 1_000_000, _searched(directory)))
        shutil.rmtree(directory)
        print(_line("MB", *found["MB"][-1]), file=sys.stderr, flush=True)
    for count in (one for one in COUNTS if one <= options.most_files):
        with tempfile.TemporaryDirectory(prefix="txnsim-scale-") as scratch:
            directory = made_segments(Path(scratch) / "broker-1", count)
            found["files"].append((count, _searched(directory)))
        print(_line("files", *found["files"][-1]), file=sys.stderr, flush=True)
    table = "\n".join([_HEAD, *_lines(found)]) + "\n"
    print(table, end="")
    if options.write:
        PAGE.write_text(on_page(PAGE.read_text("utf-8"), table, BEGIN, END), "utf-8")
        PLOT.write_bytes(_svg(found))
    return 0


def _searched(directory: Path) -> Ran:
    command = ["logs", "find-hanging", "--json", str(directory)]
    done = ran([sys.executable, "-c", AS_INSTALLED, *command])
    assert done.status in (0, 3, 4), done.status  # nothing, hanging, or not known without a log
    return done


_HEAD: Final = (
    "| log | by | seconds | CPU, s | memory of the driver, MB | of Java, MB | load |\n|"
    + 7 * " --- |"
)


def _lines(found: dict[str, list[tuple[int, Ran]]]) -> Iterator[str]:
    for what, many in found.items():
        for count, done in many:
            yield _line(what, count, done)


def _line(what: str, count: int, done: Ran) -> str:
    report = msgspec.json.decode(done.stdout, type=_Report)
    cells = (
        f"{count:,} {what}",
        "Spark" if report.source.with_spark else "here",
        f"{done.seconds:.1f}",
        f"{done.cpu_s:.1f}",
        f"{done.own_mb:.0f}",
        f"{done.java_mb:.0f}" if done.java_mb else "",
        f"{done.load:.1f}",
    )
    return f"| {' | '.join(cells)} |"


def _svg(found: dict[str, list[tuple[int, Ran]]]) -> bytes:
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with matplotlib.rc_context(
        {"svg.hashsalt": "txnsim", "svg.fonttype": "none", "font.size": 9.0}
    ):
        figure = Figure(figsize=(7.2, 2.8), layout="constrained")
        FigureCanvasSVG(figure)
        for (what, many), axes in zip(found.items(), figure.subplots(1, 2), strict=True):
            counts = [count for count, _ in many]
            axes.plot(counts, [one.seconds for _, one in many], "o-", color="#1f6f8b")
            axes.plot(counts, [one.cpu_s for _, one in many], "o--", color="#b5532a")
            axes.set_xlabel("MB of log" if what == "MB" else "segments of 189 bytes")
            axes.set_xlim(left=0)
            axes.set_ylim(bottom=0)
            axes.grid(alpha=0.3)
        figure.axes[0].set_ylabel("seconds; dashed: CPU")
        out = io.BytesIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return out.getvalue()


if __name__ == "__main__":
    sys.exit(main())
