"""Shared by the actions that search for open transactions first, and by those that read data and
print it.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from contextlib import ExitStack
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

from txnsim.cli.output import TERMINAL
from txnsim.cli.progress import LINES
from txnsim_spark.cli.logs.spark import session

if TYPE_CHECKING:
    from txnsim_spark.forensics.find_hanging import Search

T = TypeVar("T")

_COUNT_RE: Final = re.compile(r"(\d+) of ([1-9]\d*)")
_tenth_by_progress: Final[dict[tuple[str, int], int]] = {}
"""Message of progress and its total -> the last tenth that was printed."""


def add_as_of_argument(parser: argparse.ArgumentParser) -> None:
    """Declare the option for the time from which ages are counted."""
    parser.add_argument(
        "--as-of",
        type=time_ms,
        metavar="TIME",
        help="ages are counted to this time: ISO 8601, milliseconds since 1970, or 'now'"
        " (default: the newest time of files and coordinators' records)",
    )


def search_of(args: argparse.Namespace) -> Search:
    """The search that the arguments of ``add_directory_arguments``, ``add_as_of_argument`` and
    ``add_master_argument`` ask for.
    """
    from txnsim.runtime.wall_clock import wall_ms
    from txnsim_spark.forensics.find_hanging import Search

    return Search(
        paths=tuple(args.directory),
        topics=frozenset(args.topic),
        as_of_ms=args.as_of,
        now_ms=wall_ms(),
        with_spark=args.master is not None,
    )


def search_files(master: str | None, run_search: Callable[..., T], *search_arguments: Any) -> T:
    """Run a search. Start Spark only if there is much to read."""
    with ExitStack() as stack:
        return run_search(
            *search_arguments,
            new_session=lambda: stack.enter_context(session(master, is_short=True)),
            progress=show_progress,
        )


def show_progress(text: str) -> None:
    """Show progress. On a terminal a message replaces the one before; elsewhere the start of Spark
    and each tenth of a long count are printed.
    """
    if TERMINAL.may_move_cursor():
        TERMINAL.progress(text)
    elif "Spark" in text or _is_new_tenth(text):
        TERMINAL.warn(text)


def _is_new_tenth(text: str) -> bool:
    count_match = _COUNT_RE.search(text)
    if count_match is None:
        return False
    count_done, total_count = map(int, count_match.groups())
    progress_key = (text[: count_match.start()], total_count)
    tenth_number, tenth_number_before = (
        count_done * LINES // total_count,
        _tenth_by_progress.get(progress_key, 0),
    )
    _tenth_by_progress[progress_key] = tenth_number
    return total_count > LINES and tenth_number > tenth_number_before


def time_ms(text: str) -> int:
    """The time that an option gives, in milliseconds since 1970."""
    if text == "now":
        from txnsim.runtime.wall_clock import wall_ms

        return wall_ms()
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        parsed_time = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither ISO 8601, a number of milliseconds, nor 'now'"
        ) from None
    if parsed_time.tzinfo is None:
        raise argparse.ArgumentTypeError(f"{text!r} needs a time zone, such as Z at its end")
    return round(parsed_time.timestamp() * 1_000)


def make_run(
    read_answer: Callable[[argparse.Namespace], T],
    print_answer: Callable[[T], None],
    status_of: Callable[[T], int] = lambda _: 0,
) -> Callable[[argparse.Namespace], int]:
    """Make the ``run`` of an action: reads, prints, and returns the exit status."""

    def run(args: argparse.Namespace) -> int:
        search_result = read_answer(args)
        if args.json:
            TERMINAL.json(search_result)
        else:
            print_answer(search_result)
        return status_of(search_result)

    return run
