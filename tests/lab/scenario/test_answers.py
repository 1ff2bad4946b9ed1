from __future__ import annotations

from types import SimpleNamespace

import pytest

from txnsim.client.errors import (
    AbortableError,
    ClientError,
    ConnectionLostError,
    ErrorCode,
    FatalError,
    RequestTimeoutError,
    RetriableError,
)
from txnsim_lab.scenario.answers import CallResult, failure, read_answer


@pytest.mark.parametrize(
    ("error", "name", "outcome"),
    [
        (
            ConnectionLostError("cut", error=ErrorCode.network_exception),
            "CONNECTION_LOST",
            "unknown",
        ),
        (RequestTimeoutError("late"), "REQUEST_TIMED_OUT", "unknown"),
        (FatalError("no", error=ErrorCode.producer_fenced), "PRODUCER_FENCED", "failed"),
        (RetriableError("in vain"), "REQUEST_TIMED_OUT", "unknown"),
        (AbortableError("given up"), "TRANSACTION_ABORTABLE", "failed"),
        (ClientError("odd"), "ClientError", "failed"),
    ],
)
def test_what_goes_wrong_for_a_client_is_an_answer(
    error: ClientError, name: str, outcome: str
) -> None:
    answer = failure(error)
    assert (answer.error, answer.outcome, answer.because) == (name, outcome, str(error))


def row(error: int, offset: int = 0) -> SimpleNamespace:
    return SimpleNamespace(error_code=error, base_offset=offset)


def test_an_answer_tells_its_first_telling_error_and_its_first_offset() -> None:
    produced = SimpleNamespace(responses=[SimpleNamespace(partition_responses=[row(0, 4)])])
    assert read_answer(produced) == CallResult(offset=4)
    added = SimpleNamespace(
        results_by_topic_v3_and_below=[
            SimpleNamespace(
                results_by_partition=[
                    SimpleNamespace(partition_error_code=code)
                    for code in (ErrorCode.operation_not_attempted, ErrorCode.producer_fenced)
                ]
            )
        ]
    )
    assert read_answer(added).error == "PRODUCER_FENCED"
    offsets = SimpleNamespace(topics=[SimpleNamespace(partitions=[row(0), row(51)])])
    assert read_answer(offsets).error == "CONCURRENT_TRANSACTIONS"
    assert read_answer(row(0)) == CallResult()
    assert read_answer(row(0)).outcome == "ok"
