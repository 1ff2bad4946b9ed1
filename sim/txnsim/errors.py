"""Errors in their three forms.

Kafka's outcomes are values: a ``Rejection`` carries the ``ErrorCode`` and the reason. Our own bugs
stop the run. The world's failures are exceptions, translated once at the edge::

    TxnsimError                    whatever txnsim raises on purpose
    ├── InvariantViolation         a bug of ours: an invariant of the cores does not hold
    ├── AnswerTooLargeError        what was asked for would take too much memory
    ├── WorkIsOverError            nobody waits any more for what is being done
    ├── BadInputError              what somebody gave us is wrong; the message names the place
    │   ├── MalformedFrameError    bytes on a connection that are no Kafka request
    │   ├── UnsupportedRequestError  an API key or version that this broker does not speak
    │   ├── CorruptBatchError      a record batch that can't be read
    │   │   └── UnpacksTooLargeError  its records unpack to more than is held
    │   ├── CorruptLogRecordError  a record of an internal topic that can't be read
    │   ├── PatternError           a regular expression that is none, or takes too long
    │   └── ConfigError            a configuration or scenario file, a command-line value
    ├── PeerError                  a request between brokers had no answer
    │   ├── PeerAnsweredError      only an error code came back: the reply's top level
    │   ├── PeerDisconnectedError  no telling whether the request took effect
    │   └── PeerTimeoutError       no answer within the request timeout
    ├── SimulationError            virtual time can't go on
    │   ├── DeadlockError          somebody waits, and nothing is scheduled that could wake them
    │   ├── LivelockError          the loop turns and turns without time going on
    │   └── NotSimulatedError      threads, names, processes, real sockets: not in virtual time
    ├── ClientError                our own wire client could not do what it was asked
    └── MissingExtraError          an optional dependency is not installed

``ErrorCode`` is kio's enumeration, re-exported so that the cores need not know kio. The names below
are public.
"""

from __future__ import annotations

from typing import Final, Self

import msgspec
from kio.schema.errors import ErrorCode

__all__ = [
    "AnswerTooLargeError",
    "BadInputError",
    "ClientError",
    "ConfigError",
    "CorruptBatchError",
    "CorruptLogRecordError",
    "DeadlockError",
    "ErrorCode",
    "InvariantViolation",
    "LivelockError",
    "MalformedFrameError",
    "MissingExtraError",
    "NotSimulatedError",
    "PatternError",
    "PeerAnsweredError",
    "PeerDisconnectedError",
    "PeerError",
    "PeerTimeoutError",
    "Rejection",
    "SimulationError",
    "TxnsimError",
    "UnpacksTooLargeError",
    "UnsupportedRequestError",
    "WorkIsOverError",
]


class Rejection(msgspec.Struct, frozen=True, kw_only=True):
    """A refusal in Kafka's terms: the error the client gets, and why, fit for a log line.

    ``reason`` states what was expected, what was found and the rule (KIP or Kafka class).
    """

    error: ErrorCode
    reason: str
    rule: str = ""
    """Row of docs/rules.md that explains it, for the trace; "" where none does."""


class TxnsimError(Exception):
    """Base of everything that txnsim raises on purpose."""


class InvariantViolation(TxnsimError):
    """An invariant of the cores does not hold: a bug of ours. Surfaces to clients as
    UNKNOWN_SERVER_ERROR.
    """


class AnswerTooLargeError(TxnsimError):
    """An answer that would exceed the memory limit."""


class WorkIsOverError(TxnsimError):
    """No caller waits for the result of the work any more."""


class BadInputError(TxnsimError):
    """Something that was handed to us is wrong; the message names the place."""


class MalformedFrameError(BadInputError):
    """Bytes on a connection that are no Kafka request. The connection is closed, as a real broker
    does.
    """


class UnsupportedRequestError(BadInputError):
    """An API key or version that this broker does not speak. The connection is closed, as a real
    broker does.
    """


class CorruptBatchError(BadInputError):
    """A record batch that can't be read."""


class CorruptLogRecordError(BadInputError):
    """A record of an internal topic that can't be read."""


class UnpacksTooLargeError(CorruptBatchError):
    """The records of a batch unpack to more than the reader wants to hold."""

    def __init__(self, codec: str, at_most: int) -> None:
        super().__init__(f"{codec}: a batch decompresses to more than {at_most} bytes")


class PatternError(BadInputError):
    """An invalid regular expression, or one that takes too long."""


class ConfigError(BadInputError):
    """A configuration file, a scenario file or a command-line value; the message names file and
    field.
    """


class PeerError(TxnsimError):
    """A request between brokers had no answer."""


class PeerAnsweredError(PeerError):
    """Only an error code came back; the caller treats it as the top-level error of the reply."""

    def __init__(self, message: str, *, error: int) -> None:
        super().__init__(message)
        self.error = error


class PeerDisconnectedError(PeerError):
    """The connection was lost; the request may or may not have taken effect."""


class PeerTimeoutError(PeerError):
    """No answer within the request timeout."""


class SimulationError(TxnsimError):
    """Virtual time can't go on."""


class DeadlockError(SimulationError):
    """A task waits, and nothing is scheduled that could wake it: an error instead of a hang."""


class LivelockError(SimulationError):
    """The loop turned more often than allowed without time going on."""


class NotSimulatedError(SimulationError):
    """Something was asked for that virtual time does not have: threads, names, processes, real
    sockets.
    """


class ClientError(TxnsimError):
    """An error of the simulator's own client."""

    def __init__(self, message: str, *, error: ErrorCode | None = None) -> None:
        super().__init__(message)
        self.error = error
        self.in_doubt = False
        """An earlier attempt without a clear answer may have taken effect."""


class MissingExtraError(TxnsimError):
    """An optional dependency is not installed; the message gives the pip line."""

    @classmethod
    def of(cls, extra: str) -> Self:
        return cls(f"the extra {extra} is not installed: {cls.pip_line(extra)}")

    @staticmethod
    def pip_line(extra: str) -> str:
        """How an extra is installed. txnsim is on no package index yet, so anybody could take its
        name there.
        """
        return f"pip install '.[{extra}]' in a checkout of txnsim"


SHOWN_MAX: Final = 200
"""Characters of a value in a message."""


def in_short(value: object) -> str:
    """A value for a message, cut where it is long."""
    text = repr(value)
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}… ({len(text)} characters)"
