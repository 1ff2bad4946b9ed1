"""Log lines of requests, if they are wanted (level debug).

While a request is handled, its connection, client, transactional id and correlation id are bound as
structlog's context variables, so every log line of its handling has them. This is done only if
``Environment.logs_requests`` is set. Kafka's counterpart: RequestChannel's
``kafka.request.logger``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final

from txnsim.api.request import READS, Handler, NoResponse, Reply, Request
from txnsim.errors import AnswerTooLargeError, ErrorCode, WorkIsOverError
from txnsim.loggers import Logger
from txnsim.server.client_fault_points import FaultOutcome
from txnsim.types import uuid_text
from txnsim.wire import codec
from txnsim.wire.apis import api_name
from txnsim.wire.error_codes import errors_of, position_of_error

if TYPE_CHECKING:
    from txnsim.server._listener import BrokerListener

_log: Final = Logger("txnsim.request")
_server_log: Final = Logger("txnsim.server")


async def log_handling(
    handling_coroutine: Coroutine[Any, Any, Any],
    request: Request,
    handler: Handler,
    *,
    listener: BrokerListener,
    connection: str,
) -> Any:
    """Handle a request and log when it begins and ends.

    It must run in a context of its own, so that what is bound here is seen nowhere else.
    """
    subject = handler.subject(request)
    bound_fields: dict[str, Any] = {
        "broker": request.broker.broker_id,
        "connection": connection,
        "client_id": request.client_id,
        "correlation_id": request.correlation_id,
        "api": api_name(request.api_key),
        "version": request.api_version,
    }
    if request.link.client_instance_id is not None:
        bound_fields["client_instance_id"] = uuid_text(request.link.client_instance_id)
    if subject.transactional_id:
        bound_fields["transactional_id"] = subject.transactional_id
    from structlog.contextvars import bound_contextvars  # only where requests are logged

    with bound_contextvars(**bound_fields):
        _log.debug("request.received", principal=request.principal)
        started_ns = listener.stopwatch_ns()
        reply = await handling_coroutine
        _log.debug(
            "request.answered",
            ms=round((listener.stopwatch_ns() - started_ns) / 1_000_000, 3),
            **outcome(request, reply),
        )
        return reply


def outcome(request: Request, reply: Any) -> dict[str, Any]:
    """Outcome of a request for the log: ``errors`` has the distinct names of errors, ``answer`` the
    reason why there is none; empty for success.
    """
    if type(reply) is FaultOutcome:
        reply = reply.reply
    error_codes: list[int] = []
    if type(reply) is bytes:
        error_index = position_of_error(codec.response_class(request.api_key, request.api_version))
        if error_index is None or reply[error_index : error_index + 2] == _NO_ERROR:
            return _NO_OUTCOME_FIELDS
        error_codes.append(int.from_bytes(reply[error_index : error_index + 2], "big", signed=True))
    elif isinstance(reply, NoResponse):
        return {"answer": reply.name.lower()}
    else:
        report_errors = errors_of(reply.__class__)
        assert report_errors is not None, "each answer of Kafka's has a place for errors"
        report_errors(reply, error_codes.append)
    if not error_codes or not any(error_codes):
        return _NO_OUTCOME_FIELDS
    errors = sorted({_ERROR_NAMES.get(error, str(error)) for error in error_codes if error})
    return {"errors": errors}


_NO_ERROR: Final = bytes(2)
_NO_OUTCOME_FIELDS: Final[dict[str, Any]] = {}
"""Outcome of a request without errors; never changed."""
_ERROR_NAMES: Final = {int(error): error.name.upper() for error in ErrorCode}
"""Kafka's names of error codes; a fault may answer with a code that has none."""


def replacement_reply(
    request: Request, handler: Handler, error: BaseException, *, connection: str, request_bytes: int
) -> Reply:
    """The reply to a request of ``request_bytes`` bytes whose handler failed.

    If an answer would be too large, a request that only reads gets an error. If the request changed
    something, or was large itself, the connection is closed, as a real broker does if a response is
    larger than 2 GiB.
    """
    if isinstance(error, asyncio.CancelledError | WorkIsOverError):
        return NoResponse.NEVER
    if not isinstance(error, AnswerTooLargeError):
        log_bug(request, error, connection=connection)
        return handler.refuse(request, ErrorCode.unknown_server_error)
    _server_log.warning("answer too large", connection=connection, reason=str(error))
    if request.api_key in READS and request_bytes <= codec.COUNTED_FROM_BYTES:
        return handler.refuse(request, ErrorCode.policy_violation)
    return NoResponse.CLOSE


def too_large_reply(
    request: Request, answer_bytes: int, request_bytes: int, connection: str
) -> tuple[Reply, list[bytes] | None]:
    """The reply instead of an answer of ``answer_bytes`` bytes that is too large, and its encoded
    pieces.
    """
    error = AnswerTooLargeError(f"{answer_bytes:,} bytes, an answer may have {request.bytes_max:,}")
    reply = replacement_reply(
        request, request.handler, error, connection=connection, request_bytes=request_bytes
    )
    return reply, None if isinstance(reply, NoResponse) else codec.encode_pieces(reply)


def log_bug(request: Request, error: BaseException, *, connection: str) -> None:
    """Log that a handler failed by a bug of txnsim, whatever the request was."""
    _server_log.error(
        "request failed by a bug",
        api=api_name(request.api_key),
        version=request.api_version,
        connection=connection,
        client_id=request.client_id,
        correlation_id=request.correlation_id,
        exc_info=error,
    )


def raise_bug(error: BaseException) -> None:
    """Raise an error of background work, except the cancellation by a closed connection."""
    if not isinstance(error, asyncio.CancelledError):
        raise error
