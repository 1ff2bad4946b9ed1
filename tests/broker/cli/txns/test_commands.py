"""What can be refused without a broker; the rest is in test_command."""

from __future__ import annotations

import argparse

import pytest

from txnsim.cli._txns.command import (
    AbortTransaction,
    CommandFailure,
    FindHanging,
    command_failure,
    command_from,
)
from txnsim.cli.output import Output
from txnsim.client.errors import ClientError
from txnsim.types import TopicPartition

P = TopicPartition("t", 0)


def test_a_failure_has_kafkas_ending_and_its_cause() -> None:
    cause_error = ClientError("no")
    failure = command_failure("Failed to try", cause_error)
    assert failure.text == "Failed to try: no. Enable debug logging for additional detail."
    assert failure.cause is cause_error


def test_an_identity_must_be_whole_but_a_start_offset_is_enough() -> None:
    assert AbortTransaction(partition=P, start_offset=0).producer_id is None
    abort_by_identity = AbortTransaction(
        partition=P, producer_id=0, producer_epoch=0, coordinator_epoch=0
    )
    assert abort_by_identity.start_offset is None
    for partial_fields in ({}, {"producer_id": 0}, {"producer_id": 0, "producer_epoch": 0}):
        with pytest.raises(CommandFailure):
            AbortTransaction(partition=P, **partial_fields)


def test_a_search_needs_a_scope() -> None:
    assert FindHanging(broker_id=0).max_transaction_timeout_min == 15
    with pytest.raises(CommandFailure, match="requires either --topic"):
        FindHanging()
    with pytest.raises(CommandFailure, match="requires --topic to be provided"):
        FindHanging(broker_id=1, partition=0)


def test_a_command_without_a_table_prints_nothing_but_json_on_demand(
    capsys: pytest.CaptureFixture[str],
) -> None:
    output = Output(values={"aborted": 1})
    output.print(as_json=False)
    assert capsys.readouterr().out == ""
    output.print(as_json=True)
    assert capsys.readouterr().out == '{\n  "aborted": 1\n}\n'


def test_a_name_that_argparse_would_not_let_through_is_a_bug() -> None:
    with pytest.raises(AssertionError, match="bogus"):
        command_from(argparse.Namespace(kip_text=False, txns_command="bogus"), "localhost:9092")
