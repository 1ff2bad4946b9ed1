"""Names of runs from the paths of traces, and why a file is no trace. Pure: paths and lines, no
Spark.

A trace is JSON lines with a header (``txnsim.runtime.trace``); the control port's event stream
(Server-Sent Events) as saved by ``curl`` is read as well; it has no header.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from typing import Final
from urllib.parse import unquote

TRACE_SUFFIXES: Final = (".gz", ".zst", ".jsonl", ".ndjson", ".json", ".sse", ".txt")
"""Suffixes that a run's name leaves out."""
HEADER_START: Final = '{"k":"run"'
TRAILER_START: Final = '{"k":"end"'
"""Beginning of the last line of a trace; first and last lines are recognized without reading the
others.
"""
DATA_PREFIX: Final = "data: "
"""Prefix of event stream lines that carry an event."""
SILENT_LINE: Final = r"^(id|event|retry)?:|^\s*$"
"""Matches lines of an event stream that carry no event and are no damage."""


def run_names(trace_files: Sequence[str]) -> dict[str, str]:
    """The name of each file's run: the path without the beginning that all paths share, and without
    the suffix. Two files that differ only in their suffix keep it.

    Args:
        trace_files: Paths or URIs.
    """
    path_by_file = {trace_file: path_of(trace_file) for trace_file in dict.fromkeys(trace_files)}
    shared_directory = _shared_directory(list(path_by_file.values()))
    name_by_file = {
        trace_file: _without_suffix(path[len(shared_directory) :])
        for trace_file, path in path_by_file.items()
    }
    given_names = list(name_by_file.values())
    return {
        trace_file: run_name
        if given_names.count(run_name) == 1
        else path_by_file[trace_file][len(shared_directory) :]
        for trace_file, run_name in name_by_file.items()
    }


def path_of(uri: str) -> str:
    """A path as people write it; a URI that does not begin with ``file:`` keeps its scheme."""
    return unquote(uri).removeprefix("file://")


def _shared_directory(trace_paths: Sequence[str]) -> str:
    """The beginning that all paths share, up to a slash."""
    if not trace_paths:
        return ""
    directory_parts = [posixpath.dirname(path).split("/") for path in trace_paths]
    shared_parts: list[str] = []
    for parts_at_depth in zip(*directory_parts, strict=False):
        if len(set(parts_at_depth)) > 1:
            break
        shared_parts.append(parts_at_depth[0])
    return (
        "".join(shared_part + "/" for shared_part in shared_parts) if "/" in trace_paths[0] else ""
    )


def _without_suffix(file_name: str) -> str:
    may_have_suffix = True
    while may_have_suffix:
        may_have_suffix = False
        for suffix in TRACE_SUFFIXES:
            if file_name.endswith(suffix) and file_name != suffix:
                file_name, may_have_suffix = file_name.removesuffix(suffix), True
    return file_name
