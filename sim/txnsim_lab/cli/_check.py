"""``txnsim check``: judges histories from any source, also of a real cluster."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from txnsim.cli.output import TERMINAL
from txnsim.files import problem_of, read_given

if TYPE_CHECKING:
    from txnsim_lab.check.history import History
    from txnsim_lab.check.judge import Verdict

ANOMALIES_STATUS: Final = 1
STANDARD_INPUT: Final = "-"
HISTORY_BYTES_MAX: Final = 256 << 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "Exit status: 0 every history is healthy, 1 one has anomalies, 2 a file is no history,"
        " or has no answer of a broker."
    )
    parser.add_argument(
        "history",
        nargs="+",
        metavar="HISTORY",
        help="JSON lines, one observation each (docs/histories.md); - reads standard input",
    )
    parser.add_argument("--json", action="store_true", help="verdicts and evidence as JSON")


def run(args: argparse.Namespace) -> int:
    """Run the command; returns the exit status.

    Raises:
        ConfigError: A file can't be read, or is no history that can be judged.
    """
    from txnsim.errors import ConfigError
    from txnsim_lab.check.history import History, HistoryError, require_answers
    from txnsim_lab.check.judge import judge

    judged_histories: list[tuple[str, History, Verdict]] = []
    for file_name in args.history:
        try:
            history = History.from_lines(_read_history_file(file_name))
            require_answers(history)
            judged_histories.append((file_name, history, judge(history)))
        except OSError as error:
            raise ConfigError(f"{file_name}: {problem_of(error)}") from None
        except HistoryError as error:
            raise ConfigError(f"{file_name}: {error}") from None
    TERMINAL.tell(
        args,
        [_verdict_as_json(*judged_history) for judged_history in judged_histories],
        lambda _: (
            line for judged_history in judged_histories for line in _verdict_lines(*judged_history)
        ),
    )
    return 0 if all(verdict.healthy for _, _, verdict in judged_histories) else ANOMALIES_STATUS


def _read_history_file(file_name: str) -> bytes:
    path = None if file_name == STANDARD_INPUT else Path(file_name)
    return read_given(path, bytes_max=HISTORY_BYTES_MAX)


def _verdict_as_json(file_name: str, history: History, verdict: Verdict) -> dict[str, object]:
    return {
        "history": file_name,
        "observations": len(history),
        "verdict": verdict.kinds,
        "unread": [str(partition) for partition in history.unread_partitions()],
        "anomalies": [
            {
                "kind": anomaly.kind,
                "because": anomaly.because,
                "evidence": [
                    {"number": index + 1, "observation": history[index]}
                    for index in anomaly.evidence
                ],
            }
            for anomaly in verdict.anomalies
        ],
    }


def _verdict_lines(file_name: str, history: History, verdict: Verdict) -> Iterator[str]:
    yield f"{file_name}: {verdict} ({len(history)} observations)"
    if unread := history.unread_partitions():
        yield (
            f"  not judged: the records of {', '.join(map(str, unread))}. They were written, and"
            " no reader was given any"
        )
    for anomaly in verdict.anomalies:
        yield f"  {anomaly.kind}: {anomaly.because}"
        for index in anomaly.evidence:
            observation = msgspec.json.encode(history[index]).decode()
            yield f"  {index + 1:>6}  {observation}"
