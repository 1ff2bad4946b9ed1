"""Progress of long commands on standard error, and what Ctrl-C says about the work done.

A terminal gets one line that is replaced. A file or a pipe gets a line for each tenth of the work,
or for each item if they are few, so that a log stays short. If the total is unknown, it gets a line
whenever the count has doubled. Nothing is written to standard output, so ``--json`` needs no
exception.
"""

from __future__ import annotations

from typing import Final

from txnsim.cli.output import TERMINAL

LINES: Final = 10
"""Number of lines for the whole work, if lines can't be replaced."""


class Progress:
    """Counts how much of its work a command has done."""

    def __init__(self, noun: str, total: int | None, *, how_to_go_on: str = "") -> None:
        """Begin to count.

        Args:
            noun: What is counted, in the plural: "seeds".
            total: How many there will be; None where it can't be known.
            how_to_go_on: What Ctrl-C tells of a command that can go on where it stopped.
        """
        self.how_to_go_on = how_to_go_on
        self._noun = noun
        self._total = total
        self._done = 0
        self._shown_count = 0
        self._names_each = total is not None and total <= 2 * LINES
        TERMINAL.count = self

    @property
    def done_count(self) -> int:
        return self._done

    def advance(self, done_count: int, item: str = "", tally_text: str = "") -> None:
        """Show the progress.

        Args:
            done_count: The number done so far.
            item: The last one, shown if each item gets a line.
            tally_text: A summary of all results so far.
        """
        self.count(done_count)
        text = f"{self}, {tally_text}" if tally_text else str(self)
        is_terminal = TERMINAL.may_move_cursor()
        if item and (is_terminal or self._names_each):
            text = f"{text}: {item}"
        if is_terminal:
            TERMINAL.progress(text)
        elif self._names_each or self._is_due():
            self._shown_count = done_count
            TERMINAL.warn(text)

    def count(self, done_count: int) -> None:
        """Set the count for Ctrl-C, if the command prints its progress itself."""
        self._done = done_count

    def end(self) -> None:
        """Clear the progress line of a terminal, because results follow."""
        TERMINAL.progress("")

    def __str__(self) -> str:
        total_text = "" if self._total is None else f" of {self._total}"
        return f"{self._done}{total_text} {self._noun}"

    def _is_due(self) -> bool:
        if self._total is None:
            return self._done >= max(1, 2 * self._shown_count)
        return self._done * LINES // self._total > self._shown_count * LINES // self._total


def stop_sentence() -> str:
    """A sentence that says how far the command came before Ctrl-C."""
    progress_shown = TERMINAL.count
    if not isinstance(progress_shown, Progress):
        return "txnsim: stopped"
    remark = f"; {progress_shown.how_to_go_on}" if progress_shown.how_to_go_on else ""
    return f"txnsim: stopped after {progress_shown}{remark}"
