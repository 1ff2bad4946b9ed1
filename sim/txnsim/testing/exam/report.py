"""A page of a sitting: self-contained, without scripts."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Final

from txnsim.testing.exam.results import Outcome, Result, Sitting

STYLE: Final = (
    "body{font:15px/1.5 system-ui;max-width:70rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse;width:100%}td,th{border-bottom:1px solid #ccc;padding:.3rem;"
    "text-align:left;vertical-align:top}.missed{color:#a40000;font-weight:bold}.passed{color:#186218}"
    "pre{white-space:pre-wrap;background:#f6f6f6;padding:.6rem}"
)

UNDER_WORDS: Final = (Outcome.MISSED, Outcome.PROTOCOL)
"""What is told in full."""


def page(sitting: Sitting) -> str:
    """The report as HTML."""
    title = f"The exam of {sitting.library} {sitting.version}"
    counts = ", ".join(f"{sitting.count(one)} {one}" for one in Outcome)
    return "\n".join(
        (
            '<!doctype html><html lang="en"><meta charset="utf-8">',
            f"<title>{escape(title)}</title><style>{STYLE}</style><h1>{escape(title)}</h1>",
            f"<p>{escape(counts)}. It speaks version {sitting.speaks} of transactions.</p>",
            "<table><tr><th>Class<th>Situation<th>transaction.version<th>Outcome</tr>",
            *map(_row, sitting.results),
            "</table>",
            *_stories(sitting),
        )
    )


def _row(result: Result) -> str:
    name = escape(result.situation)
    if result.outcome in UNDER_WORDS:
        name = f'<a href="#{escape(result.id)}">{name}</a>'
    return (
        f"<tr><td>{escape(result.kind)}<td>{name}<br><small>{escape(result.asks)}</small>"
        f'<td>{result.level}<td class="{result.outcome.partition(" ")[0]}">{result.outcome}'
    )


def _stories(sitting: Sitting) -> Iterator[str]:
    for result in (one for one in sitting.results if one.outcome in UNDER_WORDS):
        yield f'<h2 id="{escape(result.id)}">{escape(result.id)}</h2><p>{escape(result.asks)}</p>'
        yield f"<ul>{''.join(f'<li>{escape(one)}' for one in result.because)}</ul>"
        told = [f"the library: {error}" for error in result.errors]
        yield f"<pre>{escape(chr(10).join((*told, *result.story)))}</pre>"
