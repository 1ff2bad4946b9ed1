"""Writes runs as one HTML file, or opens them in a browser."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from txnsim.cli.output import TERMINAL
from txnsim.files import write_whole

if TYPE_CHECKING:
    from txnsim.trace.trace_file import Recording

REDACT_HELP: Final = "leave keys and values of records out of the HTML file"
HTML_HELP: Final = (
    "write the page with the run in one HTML file, which opens without a server; it holds record"
    " values unless --redact is given"
)
OPEN_HELP: Final = "show it in a browser: the same file, in the directory for temporary files"


def write(path: Path, titled_recordings: Sequence[tuple[str, Recording]], *, redacts: bool) -> None:
    """Write the file, and print what it has.

    Raises:
        ConfigError: The file can't be written, or a run is too long for a page.
    """
    from txnsim_lab.http.page.one_file import one_file, remark

    write_whole(
        path, one_file(titled_recordings, redacts=redacts, report_progress=TERMINAL.progress)
    )
    TERMINAL.progress(f"{path}: {remark(redacts=redacts)}")


def show(titled_recordings: Sequence[tuple[str, Recording]], *, redacts: bool) -> None:
    """Write the page to a temporary file and open it in a browser."""
    import tempfile
    import webbrowser  # both cost the start of every command on scenarios

    path = Path(tempfile.mkdtemp(prefix="txnsim-")) / "run.html"
    write(path, titled_recordings, redacts=redacts)
    TERMINAL.line(path.as_uri())
    if not webbrowser.open(path.as_uri()):
        TERMINAL.warn("txnsim: no browser was found: open this address in one")
