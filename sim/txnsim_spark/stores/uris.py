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
_PATTERN_SIGNS: Final = re.compile(r"[*?\[\]{}]")
S3_SCHEMES: Final = frozenset({"s3", "s3a", "s3n"})
GCS_SCHEMES: Final = frozenset({"gs"})
_HADOOP_COPY: Final = (
    "Copy it to a directory, as with: hdfs dfs -get hdfs://namenode/kafka/broker-1 ."
)


class FileStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A file or folder, as a store lists it."""

    uri: str
    is_folder: bool
    size: int
    modified_ns: int


def is_in_object_store(path_text: str) -> bool:
    """Whether a path is in an object store. A path without a scheme, or with ``file:``, is on this
    machine.

    Raises:
        BadInputError: The scheme is not supported.
    """
    scheme = urlsplit(path_text).scheme if _SCHEME.match(path_text) else "file"
    if scheme not in S3_SCHEMES | GCS_SCHEMES | {"file"}:
        raise BadInputError(f"{path_text} is not read here: s3a:// and gs:// are. {_HADOOP_COPY}")
    return scheme != "file"


def refuse_outage(error: OSError) -> None:
    """Raise an error if the cause of an OSError is a store that did not answer. Such a store still
    has all of its files. Other files that can't be read, local ones and those that a store denies,
    count as damaged.

    Raises:
        BadInputError: The store did not answer; the message has the reason.
    """
    if error.errno == errno.EIO and is_in_object_store(str(error.filename)):
        raise BadInputError(f"{error.filename}: {problem_of(error)}") from error


def is_pattern(path_text: str) -> bool:
    """Whether Hadoop would treat a path as a pattern."""
    return _PATTERN_SIGNS.search(path_text) is not None


def regex_of(pattern: str) -> re.Pattern[str]:
    """A regular expression for a pattern of Hadoop's: ``*``, ``?``, ``[a-c]``, ``[^a-c]`` and
    ``{one,other}``.
    """
    return re.compile("".join(_regex_parts(pattern)))


def _regex_parts(pattern: str) -> Iterator[str]:
    is_in_character_class = False
    brace_depth = 0
    for character in pattern:
        if is_in_character_class:
            is_in_character_class = character != "]"
            yield character
        elif character == "[":
            is_in_character_class = True
            yield character
        elif character == "{":
            brace_depth += 1
            yield "(?:"
        elif character == "}" and brace_depth:
            brace_depth -= 1
            yield ")"
        elif character == "," and brace_depth:
            yield "|"
        else:
            yield {"*": "[^/]*", "?": "[^/]"}.get(character) or re.escape(character)
