"""The page with runs in one HTML file, which opens from disk without a server and a network.

Traces are packed with gzip, which browsers unpack. Explanations need Kafka's rules, which are not
in the page, so they are computed beforehand (``trace.explained_moments``).
"""

from __future__ import annotations

import base64
import gzip
import html
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from txnsim.errors import ConfigError
from txnsim.trace.trace_file import Recording
from txnsim_lab.http.page._files import digest, files, script, style_sheet, typeface
from txnsim_lab.trace.explained_moments import Moment, moments
from txnsim_lab.trace.findings import Finding, findings
from txnsim_lab.trace.redaction import redact_run

EVENTS_MAX: Final = 1_500_000
"""The page holds at most so many events (``EVENTS_MAX`` in static/book.js)."""
_GZIP_LEVEL: Final = 6
"""The level of gzip: the highest takes four times as long and saves five percent."""


class _PageRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run in the file."""

    title: str
    moments: tuple[Moment, ...]
    findings: tuple[Finding, ...]
    """What judges have found in it."""


class _RunList(msgspec.Struct, frozen=True, kw_only=True):
    """The list of runs that the file holds besides the page."""

    remark: str
    """A sentence about whether record values are in the file."""
    runs: tuple[_PageRun, ...]


def remark(*, redacts: bool) -> str:
    """A sentence about whether record values are in the file: whoever passes it on should know."""
    if redacts:
        return "Record values are left out of this file."
    return "This file holds record values."


def one_file(
    runs: Sequence[tuple[str, Recording]],
    *,
    redacts: bool = False,
    report_progress: Callable[[str], object] = lambda _: None,
) -> str:
    """Write the page with runs as HTML. A million events take half a minute.

    Raises:
        ConfigError: A run has more events than the page can hold.
    """
    _require_few_events(runs)
    titled_runs = [
        (title, redact_run(recording) if redacts else recording) for title, recording in runs
    ]
    remark_text = remark(redacts=redacts)
    run_list = _RunList(
        remark=remark_text,
        runs=tuple(
            _PageRun(
                title=title,
                moments=tuple(
                    moments(recording, report_progress=_run_progress(report_progress, title))
                ),
                findings=findings(recording),
            )
            for title, recording in titled_runs
        ),
    )
    report_progress("packing the events …")
    packed_elements = [
        _packed_element("runs", msgspec.json.encode(run_list)),
        *(
            _packed_element(f"trace-{run_index}", recording.to_lines())
            for run_index, (_, recording) in enumerate(titled_runs)
        ),
    ]
    style_text = style_sheet(_data_url("font/woff2", typeface()))
    icon_url = _data_url("image/svg+xml", files()["icon.svg"])
    security_policy = (
        f"default-src 'none'; script-src {digest(script())}; style-src {digest(style_text)};"
        " img-src data:; font-src data:; base-uri 'none'; form-action 'none'"
    )
    title = html.escape(runs[0][0] if runs else "no run")
    newline = "\n"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{security_policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>txnsim: {title}</title>
<!-- {remark_text} -->
<link rel="icon" href="{icon_url}" type="image/svg+xml">
<style>{style_text.decode()}</style>
</head>
<body>
<noscript>This page needs JavaScript. {remark_text}</noscript>
<div id="app"></div>
{newline.join(packed_elements)}
<script type="module">{script().decode()}</script>
</body>
</html>
"""


def _data_url(media_type: str, content: bytes) -> str:
    return f"data:{media_type};base64,{base64.b64encode(content).decode()}"


def _require_few_events(runs: Sequence[tuple[str, Recording]]) -> None:
    for title, recording in runs:
        if len(recording.events) > EVENTS_MAX:
            raise ConfigError(
                f"{title}: {len(recording.events):,} events, and the page holds at most"
                f" {EVENTS_MAX:,}: read it with `txnsim trace brief` or"
                " `txnsim trace export`, or record less"
            )


def _run_progress(
    report_progress: Callable[[str], object], run_title: str
) -> Callable[[int, int], object]:
    return lambda explained_count, event_count: report_progress(
        f"{run_title}: {explained_count:,} of {event_count:,} events explained …"
    )


def _packed_element(element_id: str, content: bytes) -> str:
    """An element that holds packed content. The page reads it by its id, and a browser does not run
    it.
    """
    packed_text = base64.b64encode(gzip.compress(content, _GZIP_LEVEL, mtime=0)).decode()
    return f'<script type="text/plain" id="{element_id}">{packed_text}</script>'
