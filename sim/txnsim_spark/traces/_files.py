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

SUFFIXES: Final = (".gz", ".zst", ".jsonl", ".ndjson", ".json", ".sse", ".txt")
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


def run_names(files: Sequence[str]) -> dict[str, str]:
    """File -> name of its run: the path without the beginning that all paths share, and without the
    suffix. Two files that differ only in their suffix keep it.

    Args:
        files: Paths or URIs.
    """
    paths = {file: path_of(file) for file in dict.fromkeys(files)}
    shared = _shared_directory(list(paths.values()))
    names = {file: _without_suffix(path[len(shared) :]) for file, path in paths.items()}
    given_names = list(names.values())
    return {
        file: name if given_names.count(name) == 1 else paths[file][len(shared) :]
        for file, name in names.items()
    }


def path_of(uri: str) -> str:
    """A path as people write it; a URI that does not begin with ``file:`` keeps its scheme."""
    return unquote(uri).removeprefix("file://")


def _shared_directory(paths: Sequence[str]) -> str:
    """The beginning that all paths share, up to a slash."""
    if not paths:
        return ""
    directories = [posixpath.dirname(path).split("/") for path in paths]
    shared: list[str] = []
    for parts in zip(*directories, strict=False):
        if len(set(parts)) > 1:
            break
        shared.append(parts[0])
    return "".join(part + "/" for part in shared) if "/" in paths[0] else ""


def _without_suffix(name: str) -> str:
    has_suffix = True
    while has_suffix:
        has_suffix = False
        for suffix in SUFFIXES:
            if name.endswith(suffix) and name != suffix:
                name, has_suffix = name.removesuffix(suffix), True
    return name
