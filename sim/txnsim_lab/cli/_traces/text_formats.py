"""``txnsim trace brief``, ``convert`` and ``open``: writes a trace as lines for ``grep``, in the
formats of other tools, and as a page. They need no Spark.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

from txnsim.cli.garbage_collection import rare_garbage_collection
from txnsim.cli.output import TERMINAL
from txnsim.cli.parsing import new_file
from txnsim.errors import ConfigError
from txnsim.files import write_whole
from txnsim_lab.cli._traces import html_file

if TYPE_CHECKING:
    from txnsim.trace.trace_file import Recording

ACTIONS: Final = ("brief", "convert", "open")
HTML_FORMAT: Final = "html"
FORMATS: Final = {
    HTML_FORMAT: "the page with this trace in one file, which opens without a server",
    "chrome": "Chrome's JSON, for ui.perfetto.dev",
    "mermaid": "a sequence diagram for an issue",
    "shiviz": "a log for ShiViz",
    "otlp": "OpenTelemetry's JSON, for Jaeger or Tempo",
}
"""Format -> its description; each one except the page is a module of
``txnsim_lab.trace.convert``.
"""


def add_arguments(subcommands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    brief_parser = subcommands.add_parser(
        "brief",
        help="one line per event, for grep",
        description="One line per event: position, seconds, node, kind, transaction, payload,"
        " causes (docs/trace-kinds.md). Exit status: 0, 2 for what is no trace.",
    )
    brief_parser.add_argument("file", type=Path, metavar="FILE", help="a trace")
    brief_parser.add_argument("--json", action="store_true", help="the events as JSON lines")
    convert_parser = subcommands.add_parser(
        "convert",
        help="a trace in the format of another tool",
        description="A trace in the format of another tool: "
        + "; ".join(
            f"{format_name}: {form_meaning}" for format_name, form_meaning in FORMATS.items()
        )
        + ". Exit status: 0, 2 for what is no trace.",
    )
    convert_parser.add_argument("file", type=Path, metavar="FILE", help="a trace")
    convert_parser.add_argument(
        "--as", dest="form", required=True, choices=tuple(FORMATS), help="which format"
    )
    convert_parser.add_argument(
        "--to", type=new_file, metavar="FILE", help="where to (default: standard output)"
    )
    convert_parser.add_argument("--redact", action="store_true", help=html_file.REDACT_HELP)
    open_parser = subcommands.add_parser(
        "open",
        help="a trace as a page in a browser",
        description="Open the page with this trace in a browser: one HTML file in the directory for"
        " temporary files. Exit status: 0, 2 for what is no trace.",
    )
    open_parser.add_argument("file", type=Path, metavar="FILE", help="a trace")
    open_parser.add_argument("--redact", action="store_true", help=html_file.REDACT_HELP)


def run(args: argparse.Namespace) -> int:
    """Run the command; returns the exit status."""
    from txnsim.trace.trace_file import Recording
    from txnsim_lab.trace.payload_error import explaining

    with rare_garbage_collection():
        recording = Recording.read(args.file)
    match args.action:
        case "open":
            with explaining(args.file, recording):
                html_file.show(
                    [(_page_title(recording, args.file), recording)], redacts=args.redact
                )
        case "brief":
            _write_brief(recording, args)
        case _:
            with explaining(args.file, recording):
                _convert(recording, args)
    return 0


def _page_title(recording: Recording, path: Path) -> str:
    title_parts = [
        str(recording.header.get(header_field) or "")
        for header_field in ("scenario", "run", "take")
    ]
    return " ".join(title_part for title_part in title_parts if title_part) or path.name


def _write_brief(recording: Recording, args: argparse.Namespace) -> None:
    from txnsim_lab.trace.brief import brief_line

    nodes = recording.nodes
    for event in recording.events:
        if args.json:
            TERMINAL.json_line({"node": nodes[event.n], "event": event})
        else:
            TERMINAL.line(brief_line(event, nodes))


def _convert(recording: Recording, args: argparse.Namespace) -> None:
    from txnsim_lab.trace.convert import chrome, mermaid, otlp, shiviz

    if args.form == HTML_FORMAT:
        _convert_to_page(recording, args)
        return
    if args.redact:
        raise ConfigError("--redact is for --as html")
    converters = {"chrome": chrome, "mermaid": mermaid, "otlp": otlp, "shiviz": shiviz}
    converted_text = converters[args.form].convert(recording)
    if args.to is None:
        TERMINAL.data(converted_text.rstrip("\n"))
    else:
        write_whole(args.to, converted_text)
        TERMINAL.progress(f"{args.to}: {len(recording.events)} events")
    if args.form == "shiviz":
        TERMINAL.warn(f"the regular expression to give to ShiViz: {shiviz.PARSER}")


def _convert_to_page(recording: Recording, args: argparse.Namespace) -> None:
    from txnsim_lab.http.page.one_file import one_file as page_of

    titled_recordings = [(_page_title(recording, args.file), recording)]
    if args.to is None:
        TERMINAL.data(
            page_of(
                titled_recordings, redacts=args.redact, report_progress=TERMINAL.progress
            ).rstrip("\n")
        )
    else:
        html_file.write(args.to, titled_recordings, redacts=args.redact)
