"""Errors of a client, by its possible next step.

::

    ClientError
    ├── ConnectionLostError       no connection, or it was cut: the request may have taken effect
    ├── RequestTimeoutError       no answer in time: the same uncertainty
    ├── NotSupportedError         the broker does not speak a version this needs
    │   └── ClientTooOldError     the broker's oldest version is newer than this client's newest
    ├── IllegalUseError           a call out of order, as Java's IllegalStateException
    ├── RetriableError            retried until time was up; may work later
    ├── AbortableError            this transaction must be aborted, the producer goes on
    └── FatalError                this producer is finished; open another
        └── AuthenticationError   the broker does not know us, or we don't trust it

``error`` carries the broker's ``ErrorCode`` where there is one. Kafka's counterpart is KIP-1050.

The names below are public.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

from txnsim.errors import ClientError, ErrorCode

T = TypeVar("T")

__all__ = [
    "AbortableError",
    "AuthenticationError",
    "ClientError",
    "ClientTooOldError",
    "ConnectionLostError",
    "ErrorCode",
    "FatalError",
    "IllegalUseError",
    "NotSupportedError",
    "RequestTimeoutError",
    "RetriableError",
    "code_name",
]


class ConnectionLostError(ClientError):
    """No connection, or a lost one; the request may have taken effect."""


class RequestTimeoutError(ClientError):
    """No answer in time; the request may or may not have taken effect."""


class NotSupportedError(ClientError):
    """The broker does not speak the API, or no version that can express the request."""


class ClientTooOldError(NotSupportedError):
    """The broker's oldest version is newer than this client's newest; the limit is ours."""


class IllegalUseError(ClientError):
    """The caller called a method in a state that does not allow it."""


class RetriableError(ClientError):
    """The request failed until its deadline; a later call may succeed."""


class AbortableError(ClientError):
    """The current transaction can't be committed; after ``abort`` the producer goes on."""


class FatalError(ClientError):
    """The producer is finished: fenced, not allowed, or out of step with the cluster."""


class AuthenticationError(FatalError):
    """The broker refuses our credentials, or its certificate is not the expected one. A retry would
    not help (AuthenticationException).
    """


def code_name(error: int) -> str:
    """Kafka's spelling of an error code, such as ``INVALID_TXN_STATE``."""
    try:
        return ErrorCode(error).name.upper()
    except ValueError:
        return f"ERROR_{error}"


def or_raised(outcome: T | ClientError) -> T:
    """The outcome, if it is a success.

    Raises:
        ClientError: The outcome is this failure.
    """
    if isinstance(outcome, ClientError):
        raise outcome
    return outcome


def only_row(rows: Sequence[T], subject_text: str) -> T:
    """The row of an answer to a question about a single thing.

    Args:
        rows: The rows of the answer.
        subject_text: What was asked, for the message: ``about topic 'orders'``.

    Raises:
        ClientError: A broker answered with no row, or with several: it is none, or a broken one.
    """
    if len(rows) != 1:
        raise ClientError(f"the broker answered with {len(rows)} rows {subject_text}, expected one")
    return rows[0]


def check_unrepeated(keys: Iterable[Hashable], subject_text: str) -> None:
    """Check that an answer has one row about each thing.

    Args:
        keys: What each row is about.
        subject_text: Who answered about what, for the message: ``broker 1 listed groups``.

    Raises:
        ClientError: A broker answered twice about the same thing, and so contradicts itself.
    """
    seen_keys: set[Hashable] = set()
    for key in keys:
        if key in seen_keys:
            raise ClientError(f"{subject_text}, and answered twice about {key}")
        seen_keys.add(key)
