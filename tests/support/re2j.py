"""What RE2/J says of expressions, from Kafka's own jars: recorded, and asked anew.

``python -m tests.support.re2j`` records ``re2j_answers.jsonl`` again (Java 17, Maven).
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from random import Random  # noqa: TID251 - the type of a stream, which txnsim.runtime draws from the seed
from typing import Final, NamedTuple

from tests.support.apache_kafka import java_classes, kafka_libs, tool
from txnsim.runtime.rng import RandomStreams

_SOURCE: Final = Path(__file__).with_name("java") / "re2j" / "Re2jJudge.java"
RECORDED: Final = Path(__file__).with_name("re2j_answers.jsonl")


class ExpressionAnswer(NamedTuple):
    """RE2/J's verdict on an expression."""

    expression: str
    refusal: str | None
    matched_names: tuple[str, ...] = ()
    unmatched_names: tuple[str, ...] = ()


def recorded_answers() -> list[ExpressionAnswer]:
    lines = RECORDED.read_text("utf-8").splitlines()
    return [
        ExpressionAnswer(expression, refused, tuple(matched), tuple(unmatched))
        for expression, refused, matched, unmatched in map(json.loads, lines)
    ]


def ask_re2j(rows: Sequence[tuple[str, Sequence[str]]]) -> list[ExpressionAnswer]:
    """Ask RE2/J about expressions, each with names."""
    libs_directory = kafka_libs()
    class_directory = java_classes([_SOURCE], name="re2j", libs_directory=libs_directory)
    lines = ("\t".join(text.encode().hex() for text in (row[0], *row[1])) for row in rows)
    process = subprocess.run(
        [
            tool("java", "RE2/J needs it"),
            "-cp",
            f"{class_directory}:{libs_directory}/*",
            "Re2jJudge",
        ],
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return [
        ExpressionAnswer(expression, answer_fields[1:])
        if answer_fields[0] == "-"
        else ExpressionAnswer(
            expression,
            None,
            tuple(
                name
                for name, is_match in zip(names, answer_fields[1:], strict=True)
                if is_match == "1"
            ),
            tuple(
                name
                for name, is_match in zip(names, answer_fields[1:], strict=True)
                if is_match == "0"
            ),
        )
        for (expression, names), answer_fields in zip(
            rows, process.stdout.splitlines(), strict=True
        )
    ]


_COMMON: Final = ("a", "b", "A", "B", "k", "S", "0", "_", "-", ".", "(", ")", "|", "*", "+", "?")
_RARE: Final = (
    *("9", "^", "$", "(?:", "(?i)", "(?i:", "(?m)", "(?s)", "(?-i)", "(?is-m:", "(?U)", "(?-)"),
    *("(?P<n>", "(?<n>", "(?P<m>", "(?<", "(?=", "(?#", "*?", "{", "}", "{2}", "{2,}", "{1,3}"),
    *("{,2}", "{0}", "{2,1}", "{1001}", "{01}", "{2147483648}", "[", "]", "[^", "[a-c]", "[^a-c]"),
    *("[]a]", "[^]a]", "[a-", "-", r"\d", r"\D", r"\s", r"\S", r"\w", r"\W", r"\b", r"\B", r"\A"),
    *(r"\z", r"\Z", r"\pL", r"\PL", r"\p{Lu}", r"\p{^Greek}", r"\P{Greek}", r"\p{Any}", r"\p{C}"),
    *(r"\pX", r"\p{", "[[:alpha:]]", "[[:^digit:]]", "[:alpha:]", "[:", "[[:foo:]]", ":]", r"\Q"),
    *(r"\E", r"\x41", r"\x{3b1}", r"\x{d800}", r"\x{110000}", r"\x{", r"\x4", r"\101", r"\0"),
    *(r"\1", r"\8", r"\n", r"\\", "\\", r"\-", r"\_", r"\.", "é", "α", "Α", "ß", "K", "ſ", "\n"),
    *(" ", "&&", "~~", "--", "[a&&b]", "#", r"\C", "x", "z-a", "[z-a]", "𝒜", "\0", "ab", "ac"),
)
_FOLDING: Final = frozenset({"(?i)", "(?i:", "(?is-m:"})
_MAY_BE_RANGE: Final = re.compile(r"-(?!c\]|[i)])")
"""Of what is drawn. RE2/J never comes to an end over a range that holds U+1C80 and ignores case."""
_OF_NAMES: Final = (*'abABckKsSſ09_-.éÉαΑßẞ\n x{}[&𝒜\\Q"\0', "\u212a")


def draw_expressions(random_source: Random, count: int) -> list[tuple[str, list[str]]]:
    """Expressions, about half of which RE2/J takes, and names for each."""

    def expression() -> str:
        while True:
            length = random_source.randint(1, random_source.choice((3, 6, 12)))
            parts = [
                random_source.choice(_COMMON if random_source.random() < 0.5 else _RARE)
                for _ in range(length)
            ]
            text = "".join(parts)
            if _FOLDING.isdisjoint(parts) or not _MAY_BE_RANGE.search(text):
                return text

    def name() -> str:
        return "".join(
            random_source.choice(_OF_NAMES) for _ in range(random_source.choice((1, 1, 2, 3, 4)))
        )

    return [(expression(), sorted({"", *(name() for _ in range(12))})) for _ in range(count)]


_ODD: Final = r"""
    orders-.* (?i)orders-.*? (?i)[a-z_] (?i)[^a-k] (?i)[À-ÿ] [\pL\pN]+ a{* a{,2}* a) ) ( a(b a**
    a*?? a*\Q\E* \Q\E* \Qa* \Qa.b\E+ a(?i)* ^* (?i)ſ (?i)ß (?i)K [a-] [-a] [a-\d] [\d-z] [--a]
    [[:] [[:alpha: [[:^space:]x] [] [^ [\x{d7ff}-\x{e000}] [\x{d800}-\x{dfff}] [^\x{d800}]
    \x{d800} (?i)\x{d800} (?P<a>x)(?P<a>y) (?P<é>x) (?P<>x) (?P<a (?P>a) (?a (?i-s:A) (?--i) (?)
    \p \pé \p{} \p{^} \P{^Lu} \p{Greek \p{greek} \p{Cn} \p{Adlam} x{1000} x{1001} x{2,1} x{0}
    x{0,0} x{00} x{1,01} x{99999999999} x{3 ((a{2}){3}){0} (?m)^$ (?m)^a$\n^b$ a$b a\zb \bab\b
    a\Bb é\b (|a)* \07 \08 \377 \400 \777 \xzz \x{} \x{110000} \x{00000041} \a\f\n\r\t\v \e \é
    [\b] [\Q] (?s). . \C [a&&b] [[a]b] (?i:A)b|Ac (?i)a|A|[aA]b
"""
WRITTEN: Final = (*("", r"\ ", "(?", "(?i"), *_ODD.split())
"""Hand-picked expressions whose answers are not obvious."""


def _record() -> None:
    names = sorted(
        {
            "",
            *_OF_NAMES,
            "orders-1",
            "ab",
            "ac",
            "Ac",
            "Ab",
            "aa",
            "a*",
            "a.b",
            "a\nb",
            "\x07\x0c\n\r\t\x0b",
        }
    )
    answers = ask_re2j(
        [(expression, names) for expression in WRITTEN]
        + draw_expressions(RandomStreams(1).stream("expressions"), 900)
    )
    lines = (json.dumps(answer, ensure_ascii=False) for answer in answers)
    RECORDED.write_text("".join(f"{line}\n" for line in lines), "utf-8")


if __name__ == "__main__":
    _record()
