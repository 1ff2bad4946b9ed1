"""How many docstrings say little.

A word carries meaning unless it is one of ``LITTLE``. A docstring says little where fewer than 30 %
of its words carry meaning; shorter ones than three words are not counted. The measure is blunt:
delete what says nothing, and never pad a sentence to please it.

Held against 100 docstrings, drawn with ``random.Random(55).sample`` and read: three were called
empty, and each said something in common words ("Whether the part's events are still to come.").
Eight passed and said no more than their name, or needed it to be understood: words of the name
count as meaning ("Make a lesson ready." of ``LessonBegin``, "The leaders of partitions.", "Of the
replica."). So some 3 % may be called empty, which leaves room for such sentences; that a docstring
only restates its name is for a reader to see. A rarer word in place of a common one pleases the
measure and nobody else.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

LITTLE: Final = frozenset(Path(__file__).with_name("little_words.txt").read_text("utf-8").split())
WORDS_MIN: Final = 3
SHARE_MIN: Final = 0.3


class Docstring(NamedTuple):
    """A docstring, or a string below an attribute."""

    place: str
    """File and line."""
    text: str
    """In one line."""
    share: float
    """Of its words that carry meaning."""

    @property
    def says_little(self) -> bool:
        return self.share < SHARE_MIN


def docstrings(file: str, statements: Iterable[ast.AST]) -> Iterator[Docstring]:
    """Docstrings among the statements of a file, of at least ``WORDS_MIN`` words."""
    for one in statements:
        match one:
            case ast.Expr(value=ast.Constant(value=str(text))):
                words = re.findall(r"[A-Za-z']+", text.lower())
                if len(words) >= WORDS_MIN:
                    said = sum(word not in LITTLE for word in words)
                    yield Docstring(
                        f"{file}:{one.lineno}", " ".join(text.split()), said / len(words)
                    )
            case _:
                pass
