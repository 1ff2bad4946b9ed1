"""The connections of the control port. They parse few bytes at once, and our log tells of their
errors.

uvicorn writes to the standard library's loggers, which a program may have set up for servers of its
own, and which otherwise print plain lines without a bound. So these connections have a logger that
nobody else has.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

from txnsim.loggers import Logger

_log: Final = Logger("txnsim.http")


FED_BYTES: Final = 8_192
"""Bytes that h11 parses in one turn of the loop. A chunk of a body may be six bytes long, and takes
some microseconds.
"""


class ControlConnection(H11Protocol):
    """uvicorn's connection over h11 with a logger of its own, which parses in pieces."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.logger = PORT_LOGGER
        self._unparsed_bytes = bytearray()

    def data_received(self, data: bytes) -> None:
        """Parse a first piece; the rest follows in later turns of the loop."""
        if self._unparsed_bytes:
            self._unparsed_bytes += data
            self.flow.pause_reading()
        elif len(data) <= FED_BYTES:
            super().data_received(data)
        else:
            self._unparsed_bytes += data
            self.flow.pause_reading()
            self._parse_piece()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget what has not been parsed."""
        self._unparsed_bytes.clear()
        super().connection_lost(exc)

    def _parse_piece(self) -> None:
        if not self._unparsed_bytes or self.transport.is_closing():
            return
        piece = bytes(self._unparsed_bytes[:FED_BYTES])
        del self._unparsed_bytes[:FED_BYTES]
        if not self._unparsed_bytes:
            self.flow.resume_reading()  # first: uvicorn pauses again for a body or a next request
        super().data_received(piece)
        if self._unparsed_bytes:
            self.loop.call_soon(self._parse_piece)

    def _unsupported_upgrade_warning(self) -> None:
        """Nothing: a request that may be upgraded is carried out as it is (RFC 9110, 7.8), and
        there is no WebSocket library to install.
        """


class _ForwardToOurLog(logging.Handler):
    """Writes uvicorn's lines as ours, which are limited: one of a kind in each second."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line; nothing about requests that are cancelled because the port closes."""
        if record.exc_info:
            if not isinstance(record.exc_info[1], asyncio.CancelledError):
                _log.error("request failed by a bug", exc_info=record.exc_info)
        else:
            _log.warning("connection closed: bad request", reason=record.getMessage())


PORT_LOGGER: Final = logging.Logger("txnsim.http", logging.WARNING)
"""A logger without a parent: it is no child of the root logger, so that only our log has it."""
PORT_LOGGER.addHandler(_ForwardToOurLog())
