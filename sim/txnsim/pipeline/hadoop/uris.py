"""Which paths Hadoop's file system reads."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

_SCHEME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:/")
_PATTERN: Final = re.compile(r"[*?\[\]{}]")


def is_elsewhere(text: str) -> bool:
    """Whether Hadoop's file system reads this path. It reads every path with a scheme, except
    ``file://`` without a pattern, which is a directory of this machine.
    """
    if not _SCHEME.match(text):
        return False
    return urlsplit(text).scheme != "file" or _PATTERN.search(text) is not None
