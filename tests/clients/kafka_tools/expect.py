"""What a tool is expected to print, as a template: text with holes where clusters and runs differ.

``<n>`` stands for a whole number, ``<decimal>`` for one with a fraction, ``<word>`` for anything
without a space, ``<any>`` for anything at all within the line. Columns are as wide as their widest
cell, so white space counts as one blank, and empty lines don't count.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Final, TypeVar

from tests.support.apache_kafka import ToolResult

PATIENCE_S: Final = 30.0
_PACE_S: Final = 0.05
_HOLES: Final = {
    "<n>": r"-?\d+",
    "<decimal>": r"-?\d+\.\d+",
    "<word>": r"\S+",
    "<any>": r".*",
}

Answer = TypeVar("Answer")


class UnexpectedAnswerError(Exception):
    """A tool's output differs from the expected output."""


def require(subject: str, holds: object) -> None:
    """Raise ``UnexpectedAnswerError`` unless ``holds`` is true."""
    if not holds:
        raise UnexpectedAnswerError(f"{subject}: does not hold")


def expect(subject: str, actual: object, expected: object) -> None:
    """Raise ``UnexpectedAnswerError`` unless the actual value is the expected one."""
    if actual != expected:
        raise UnexpectedAnswerError(f"{subject}: expected {expected!r}, found {actual!r}")


def expect_output(result: ToolResult, template: str, *, code: int = 0) -> ToolResult:
    """Raise ``Unexpected`` unless the tool ended with this status and printed exactly this text."""
    if result.code != code:
        raise UnexpectedAnswerError(f"exit status {result.code}: {result.stdout}{result.stderr}")
    if not re.fullmatch(_pattern(template), lean(result.stdout)):
        raise UnexpectedAnswerError(f"expected {lean(template)!r}, found {lean(result.stdout)!r}")
    return result


def expect_refusal(result: ToolResult, template: str) -> None:
    """Raise ``Unexpected`` unless the tool failed and its output has a line like this template."""
    expect("exit status", result.code, 1)
    output = lean(result.stdout + result.stderr)
    if not any(re.search(_pattern(template), printed_line) for printed_line in output.splitlines()):
        raise UnexpectedAnswerError(f"expected {template!r}, found {output!r}")


def eventually(check: Callable[[], Answer]) -> Answer:
    """Look until it is as expected: what a broker has been told reaches the others a moment later.

    Raises:
        Unexpected: It never was.
    """
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            return check()
        except UnexpectedAnswerError:
            if time.monotonic() > deadline_s:
                raise
            time.sleep(_PACE_S)


def lean(text: str) -> str:
    """Lines with single blanks, without those that are empty."""
    lines = (re.sub(r"\s+", " ", line).strip() for line in text.splitlines())
    return "\n".join(line for line in lines if line)


def _pattern(template: str) -> str:
    template_parts = re.split("(" + "|".join(_HOLES) + ")", lean(template))
    return "".join(
        _HOLES.get(template_part) or re.escape(template_part) for template_part in template_parts
    )
