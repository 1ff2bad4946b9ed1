"""A refused append can be handled like every other refusal, and says more."""

from __future__ import annotations

from txnsim.errors import ErrorCode, Rejection
from txnsim.log.answers import AppendRejection


def test_an_append_rejection_is_a_rejection() -> None:
    answer = AppendRejection(error=ErrorCode.corrupt_message, reason="crc")
    match answer:
        case Rejection(error=error, reason=reason):
            assert (error, reason) == (ErrorCode.corrupt_message, "crc")


def test_without_more_it_shows_no_log_start_and_blames_no_record() -> None:
    answer = AppendRejection(error=ErrorCode.corrupt_message, reason="crc")
    assert answer.log_start_offset == -1
    assert answer.record_errors == ()
