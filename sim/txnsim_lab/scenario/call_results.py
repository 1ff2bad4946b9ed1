"""The result of an actor's call: an error by Kafka's name, or NONE."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from txnsim.client.errors import (
    AbortableError,
    ConnectionLostError,
    RequestTimeoutError,
    RetriableError,
    code_name,
)
from txnsim.client.reactions import UNSAID
from txnsim.errors import ClientError, ErrorCode, TxnsimError
from txnsim.types import TopicPartition
from txnsim_lab.check.observations import Outcome

NONE: Final = "NONE"
ANY: Final = "any"
"""Stands for the expected error of a call that may end with any error, or none."""
LOST: Final = "CONNECTION_LOST"
TIMED_OUT: Final = "REQUEST_TIMED_OUT"
ABORTABLE: Final = "TRANSACTION_ABORTABLE"
UNKNOWN_ERRORS: Final = frozenset({LOST, TIMED_OUT, "NETWORK_EXCEPTION"})
"""Errors that leave open whether the request took effect."""


class StoryFailedError(TxnsimError):
    """A story could not be played to its end: a step's condition was not reached, an answer was not
    the expected one, or a fault never struck.
    """

    def __init__(self, message: str, *, error_name: str = "") -> None:
        super().__init__(message)
        self.error_name: Final = error_name
        """The unexpected error, by Kafka's name; "" if the story failed for another reason."""


class CallResult(msgspec.Struct, frozen=True, kw_only=True):
    """How an actor's call ended: its error, the offset of its record, whether it is in doubt."""

    error: str = NONE
    """Kafka's name of the error, ``NONE``, or ``CONNECTION_LOST``."""
    offset: int = -1
    """Offset of the first record; -1 if there is none."""
    because: str = ""
    """What the client reported or observed, in words."""
    is_in_doubt: bool = False
    """Whether an earlier attempt may have taken effect although the call failed."""

    @property
    def outcome(self) -> Outcome:
        """Whether the request took effect, failed, or may have done either."""
        if self.error == NONE:
            return Outcome.OK
        is_unknown = self.is_in_doubt or self.error in UNKNOWN_ERRORS
        return Outcome.UNKNOWN if is_unknown else Outcome.FAILED


GIVEN_UP: Final = CallResult(error=TIMED_OUT, because="the answer is not waited for any longer")


def error_name_of(error: ClientError | StoryFailedError) -> str:
    """The error by which a story failed, by Kafka's name; "" if it failed for another reason."""
    return error.error_name if isinstance(error, StoryFailedError) else failure(error).error


def failure(error: ClientError) -> CallResult:
    """A client's exception as a call result."""
    if isinstance(error, ConnectionLostError):
        error_name = LOST
    elif isinstance(error, RequestTimeoutError):
        error_name = TIMED_OUT
    elif isinstance(error, AbortableError) and _leaves_outcome_unknown(error.error):
        error_name = ABORTABLE  # what was lost is a record; the commit was not even sent
    elif error.error is not None:
        error_name = error.error.name.upper()
    else:
        error_name = TIMED_OUT if isinstance(error, RetriableError) else type(error).__name__
    return CallResult(error=error_name, because=str(error), is_in_doubt=error.in_doubt)


def _leaves_outcome_unknown(error: ErrorCode | None) -> bool:
    return error is None or error.name.upper() in UNKNOWN_ERRORS


def read_answer(response: Any) -> CallResult:
    """The first significant error of an answer and its first offset, as a call result."""
    errors, offsets = _error_codes(response), _answered_offsets(response)
    actual_errors = [error for error in errors if error != ErrorCode.none]
    telling_errors = [
        error for error in actual_errors if error != ErrorCode.operation_not_attempted
    ]
    error = (telling_errors or actual_errors or [ErrorCode.none])[0]
    return CallResult(error=code_name(error), offset=offsets[0] if offsets else -1)


def answers_by_partition(response: Any) -> dict[TopicPartition, CallResult]:
    """The result for each partition of a Produce response."""
    return {
        TopicPartition(topic.name, partition_response.index): CallResult(
            error=code_name(partition_response.error_code),
            offset=partition_response.base_offset,
            is_in_doubt=partition_response.error_code in UNSAID,
        )
        for topic in response.responses
        for partition_response in topic.partition_responses
    }


def _error_codes(response: Any) -> list[int]:
    if hasattr(response, "results_by_topic_v3_and_below"):
        return [
            partition_row.partition_error_code
            for topic in response.results_by_topic_v3_and_below
            for partition_row in topic.results_by_partition
        ]
    if hasattr(response, "responses"):
        return [
            partition_row.error_code
            for topic in response.responses
            for partition_row in topic.partition_responses
        ]
    if hasattr(response, "topics"):
        return [
            partition_row.error_code
            for topic in response.topics
            for partition_row in topic.partitions
        ]
    return [response.error_code]


def _answered_offsets(response: Any) -> list[int]:
    if not hasattr(response, "responses"):
        return []
    return [
        partition_response.base_offset
        for topic in response.responses
        for partition_response in topic.partition_responses
    ]
