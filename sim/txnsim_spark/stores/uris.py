"""Tells which paths are in an object store, and which of these can be read."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

import msgspec

from txnsim.errors import BadInputError
from txnsim.files import problem_of

_SCHEME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:/")
_PATTERN: Final = re.compile(r"[*?\[\]{}]")
S3: Final = frozenset({"s3", "s3a", "s3n"})
GCS: Final = frozenset({"gs"})
_COPY: Final = "Copy it to a directory, as with: hdfs dfs -get hdfs://namenode/kafka/broker-1 ."


class FileStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What a store lists of a file or folder."""

    uri: str
    is_folder: bool
    size: int
    modified_ns: int


def is_elsewhere(text: str) -> bool:
    """Whether a path is in an object store. A path without a scheme, or with ``file:``, is on this
    machine.

    Raises:
        BadInputError: The scheme is not supported.
    """
    scheme = urlsplit(text).scheme if _SCHEME.match(text) else "file"
    if scheme not in S3 | GCS | {"file"}:
        raise BadInputError(f"{text} is not read here: s3a:// and gs:// are. {_COPY}")
    return scheme != "file"


def refuse_outage(error: OSError) -> None:
    """Raise an error if a store did not answer. A local file that can't be read counts as damaged,
    and so does one that a store denies; but a store that does not answer still has all of its
    files.

    Raises:
        BadInputError: The store did not answer; the message has the reason.
    """
    if error.errno == errno.EIO and is_elsewhere(str(error.filename)):
        raise BadInputError(f"{error.filename}: {problem_of(error)}") from error


def is_pattern(text: str) -> bool:
    """Whether Hadoop would treat a path as a pattern."""
    return _PATTERN.search(text) is not None


def regex_of(pattern: str) -> re.Pattern[str]:
    """A regular expression for a pattern of Hadoop's: ``*``, ``?``, ``[a-c]``, ``[^a-c]`` and
    ``{one,other}``.
    """
    return re.compile("".join(_regex_parts(pattern)))


def _regex_parts(pattern: str) -> Iterator[str]:
    is_class = False
    depth = 0
    for sign in pattern:
        if is_class:
            is_class = sign != "]"
            yield sign
        elif sign == "[":
            is_class = True
            yield sign
        elif sign == "{":
            depth += 1
            yield "(?:"
        elif sign == "}" and depth:
            depth -= 1
            yield ")"
        elif sign == "," and depth:
            yield "|"
        else:
            yield {"*": "[^/]*", "?": "[^/]"}.get(sign) or re.escape(sign)
