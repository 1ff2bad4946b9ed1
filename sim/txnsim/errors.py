"""Errors in their three forms.

Kafka's outcomes are values: a ``Rejection`` carries the ``ErrorCode`` and the reason. Our own bugs
stop the run. The world's failures are exceptions, translated once at the edge::

    TxnsimError                    base of all errors that txnsim raises on purpose
    ├── InvariantViolation         a bug of ours: an invariant of the cores does not hold
    ├── AnswerTooLargeError        an answer would take too much memory
    ├── WorkIsOverError            no caller waits for the result any more
    ├── BadInputError              the input is wrong; the message names the place
    │   ├── MalformedFrameError    bytes on a connection that are no Kafka request
    │   ├── UnsupportedRequestError  an API key or version that this broker does not speak
    │   ├── CorruptBatchError      a record batch that can't be read
    │   │   └── UnpacksTooLargeError  its records decompress to more than is allowed
    │   ├── CorruptLogRecordError  a record of an internal topic that can't be read
    │   ├── PatternError           an invalid regular expression, or one that takes too long
    │   └── ConfigError            a wrong configuration file, scenario file or command-line value
    ├── PeerError                  a request between brokers had no answer
    │   ├── PeerAnsweredError      the reply is an error code alone: its top-level error
    │   ├── PeerDisconnectedError  the connection was lost; the request may have taken effect
    │   └── PeerTimeoutError       no answer within the request timeout
    ├── SimulationError            virtual time can't go on
    │   ├── DeadlockError          a task waits, and nothing is scheduled that could wake it
    │   ├── LivelockError          the loop turns and turns without time going on
    │   └── NotSimulatedError      threads, names, processes, real sockets: not in virtual time
    ├── ClientError                an error of our own wire client
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
    """A refusal in Kafka's terms: the error code for the client, and the reason for a log line.

    ``reason`` states what was expected, what was found and the rule (KIP or Kafka class).
    """

    error: ErrorCode
    reason: str
    rule: str = ""
    """Id of the row in docs/rules.md that explains the refusal, for the trace; "" if no row does.
    """


class TxnsimError(Exception):
    """Base of all errors that txnsim raises on purpose."""


class InvariantViolation(TxnsimError):
    """An invariant of the cores does not hold: a bug of txnsim.

    Clients get UNKNOWN_SERVER_ERROR.
    """


class AnswerTooLargeError(TxnsimError):
    """An answer that would exceed the memory limit."""


class WorkIsOverError(TxnsimError):
    """No caller waits for the result of the work any more, so the work stops."""


class BadInputError(TxnsimError):
    """Input from outside is wrong: bytes, a file, an argument. The message names the place."""


class MalformedFrameError(BadInputError):
    """The bytes on a connection are no Kafka request. The broker closes the connection, as Kafka
    does.
    """


class UnsupportedRequestError(BadInputError):
    """The broker does not support the request's API key or version. It closes the connection, as
    Kafka does.
    """


class CorruptBatchError(BadInputError):
    """A record batch that can't be read."""


class CorruptLogRecordError(BadInputError):
    """A record of an internal topic that can't be read."""


class UnpacksTooLargeError(CorruptBatchError):
    """The records of a batch decompress to more bytes than the reader allows."""

    def __init__(self, codec: str, bytes_max: int) -> None:
        super().__init__(f"{codec}: a batch decompresses to more than {bytes_max} bytes")


class PatternError(BadInputError):
    """An invalid regular expression, or one that takes too long."""


class ConfigError(BadInputError):
    """A configuration file, a scenario file or a command-line value is wrong; the message names the
    file and the field.
    """


class PeerError(TxnsimError):
    """A request between brokers failed without a usable answer."""


class PeerAnsweredError(PeerError):
    """The reply is an error code alone; the caller treats it as the reply's top-level error."""

    def __init__(self, message: str, *, error: int) -> None:
        super().__init__(message)
        self.error = error


class PeerDisconnectedError(PeerError):
    """The connection to the other broker was lost; the request may or may not have taken effect."""


class PeerTimeoutError(PeerError):
    """The other broker did not answer within the request timeout."""


class SimulationError(TxnsimError):
    """Virtual time can't go on."""


class DeadlockError(SimulationError):
    """A task waits, and nothing is scheduled that could wake it: raised instead of hanging."""


class LivelockError(SimulationError):
    """The event loop turned more often than allowed while virtual time stood still."""


class NotSimulatedError(SimulationError):
    """Code used something that virtual time does not simulate: threads, name lookup, processes,
    real sockets.
    """


class ClientError(TxnsimError):
    """An error of the simulator's own client."""

    def __init__(self, message: str, *, error: ErrorCode | None = None) -> None:
        super().__init__(message)
        self.error = error
        self.in_doubt = False
        """Whether an earlier attempt that got no clear answer may have taken effect."""


class MissingExtraError(TxnsimError):
    """An optional dependency is not installed; the message gives the pip line."""

    @classmethod
    def of(cls, extra_name: str) -> Self:
        return cls(f"the extra {extra_name} is not installed: {cls.pip_line(extra_name)}")

    @staticmethod
    def pip_line(extra_name: str) -> str:
        """Give the command that installs an extra, from a checkout: txnsim is on no package index
        yet, so anyone could take its name there.
        """
        return f"pip install '.[{extra_name}]' in a checkout of txnsim"


SHOWN_MAX: Final = 200
"""Number of characters of a value that a message shows."""


def in_short(shown_value: object) -> str:
    """Format a value for a message; a long one is cut."""
    value_text = repr(shown_value)
    return (
        value_text
        if len(value_text) <= SHOWN_MAX
        else f"{value_text[:SHOWN_MAX]}… ({len(value_text)} characters)"
    )
