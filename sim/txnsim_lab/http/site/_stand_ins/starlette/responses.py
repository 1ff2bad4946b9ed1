"""Replaces ``starlette.responses``."""

from __future__ import annotations


class Response:
    """A response."""

    def __init__(
        self, content: bytes | str = b"", status_code: int = 200, media_type: str | None = None
    ) -> None:
        self.body = content.encode() if isinstance(content, str) else content
        self.status_code = status_code
        self.media_type = media_type
