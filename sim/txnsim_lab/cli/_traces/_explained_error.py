"""``txnsim explain error``: prints the section of docs/troubleshooting.md about an error."""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any, Final

from txnsim.cli.output import TERMINAL
from txnsim.cli.parsing import columns
from txnsim_lab.troubleshooting import (
    SectionMatch,
    TroubleSection,
    find_sections,
    page_file,
    read_sections,
)

WIDTH_MAX: Final = 100
"""Limit of the text's width in a terminal: longer lines are hard to read."""
PAGE: Final = "docs/troubleshooting.md"
_LINK: Final = re.compile(r"\[([^\]]+)\]\(([^)\s]+)\)")
_FENCE: Final = re.compile(r"(?ms)^```\w*\n(.*?)^```$")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "`explain NAME` is the same as `explain error NAME`. Where several sections fit, the best"
        " is printed and the others are named. Exit status: 0, 1 if no section fits."
    )
    parser.add_argument(
        "words", nargs="+", metavar="NAME-OR-MESSAGE",
        help="an error's name in any spelling, its number, a class, a message, a line of a log;"
        " - for standard input",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> int:
    """Print the section; returns the exit status."""
    error_text = sys.stdin.read() if args.words == ["-"] else " ".join(args.words)
    section_match = find_sections(error_text, read_sections(page_file().read_text("utf-8")))
    if args.json:
        TERMINAL.json(_as_json(error_text, section_match))
    elif section_match.sections:
        best_section, *further_sections = section_match.sections
        TERMINAL.text(
            "\n".join((*_section_lines(best_section), *_further_section_lines(further_sections)))
        )
    else:
        TERMINAL.complain(_not_found_sentence(section_match))
    return int(not section_match.sections)


def _as_json(error_text: str, section_match: SectionMatch) -> dict[str, Any]:
    return {
        "asked": error_text,
        "error": section_match.error,
        "sections": [
            {
                "title": section.title,
                "page": f"{PAGE}#{section.anchor}",
                "text": section.text,
                "also_seen_as": section.seen_as,
                "stories": section.stories,
            }
            for section in section_match.sections
        ],
        "nearest": [section.title for section in section_match.nearest],
    }


def _section_lines(section: TroubleSection) -> Iterator[str]:
    """The section as lines for a terminal: its Markdown without links."""
    line_width = min(columns() - 2, WIDTH_MAX)
    yield section.title
    for paragraph in re.split(r"\n\n+", section.text):
        yield ""
        if (fence_match := _FENCE.fullmatch(paragraph)) is not None:
            yield from (f"  {line}" for line in fence_match[1].splitlines())
        else:
            for list_item in re.split(r"\n(?=- )", _without_links(paragraph)):
                list_indent = "  " if list_item.startswith("- ") else ""
                yield from textwrap.wrap(
                    " ".join(list_item.split()), line_width, subsequent_indent=list_indent
                )
    if section.seen_as:
        yield from ("", "Also seen as")
        for client_messages in section.seen_as:
            message_line = (
                f"- {', '.join(client_messages.clients)}: {' · '.join(client_messages.words)}"
            )
            yield from textwrap.wrap(
                message_line, line_width, subsequent_indent="  ", break_long_words=False
            )
    yield from ("", f"{PAGE}#{section.anchor}")


def _without_links(markdown: str) -> str:
    def link_text(link_match: re.Match[str]) -> str:
        link_label, link_target = link_match.groups()
        leads_elsewhere = not link_target.startswith("#") and link_label not in link_target
        return f"{link_label} (docs/{link_target})" if leads_elsewhere else link_label

    return _LINK.sub(link_text, markdown).replace("**", "").replace("`", "")


def _further_section_lines(sections: Sequence[TroubleSection]) -> Iterator[str]:
    """Lines about further sections that fit less well: the command for each, and its first
    sentence.
    """
    if sections:
        yield from ("", "It fits, too:")
    for section in sections:
        yield f"  txnsim explain {_quote(section.title)}"
        title_width = min(columns() - 2, WIDTH_MAX)
        title_indent = "    "
        yield from textwrap.wrap(
            _without_links(section.summary),
            title_width,
            initial_indent=title_indent,
            subsequent_indent=title_indent,
        )


def _not_found_sentence(section_match: SectionMatch) -> str:
    not_found_text = "no section fits"
    if section_match.error is not None:
        not_found_text = (
            f"{section_match.error} is an error of Kafka, and {PAGE} has no section of it"
        )
    nearest_titles = "; ".join(_quote(section.title) for section in section_match.nearest)
    trace_hint = "of a trace: `txnsim explain lso` and `txnsim explain txn`"
    return (
        f"{not_found_text}; nearest: {nearest_titles}"
        if nearest_titles
        else f"{not_found_text}; {trace_hint}"
    )


def _quote(title: str) -> str:
    quote_mark = "'" if "`" in title else '"'
    return f"{quote_mark}{title}{quote_mark}"
