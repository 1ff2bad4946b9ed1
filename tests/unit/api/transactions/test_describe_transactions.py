"""DescribeTransactions v0: the committed fields of each id."""

from __future__ import annotations

from datetime import UTC, datetime

from tests.support.handlers import Api, transaction
from txnsim.errors import ErrorCode

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


async def test_each_id_is_described_by_itself(api: Api) -> None:
    pid, epoch = await api.producer("open", timeout_ms=5_000)
    await api.ask("AddPartitionsToTxn", 3, **transaction("open", (pid, epoch), {"orders": [1, 0]}))
    await api.producer("idle")
    ids = ["open", "idle", "", "nobody"]
    answer = await api.ask("DescribeTransactions", 0, transactional_ids=ids)
    opened, idle, empty, nobody = answer.transaction_states
    assert (opened.error_code, opened.transaction_state) == (ErrorCode.none, "Ongoing")
    assert (opened.producer_id, opened.producer_epoch) == (pid, epoch)
    assert opened.transaction_timeout.total_seconds() == 5
    assert opened.transaction_start_time.year >= 2024
    assert opened.topics[0].topic == "orders"
    assert sorted(opened.topics[0].partitions) == [0, 1]
    assert (idle.transaction_state, idle.topics) == ("Empty", ())
    assert idle.transaction_start_time is None, "how -1 is read"
    assert empty.error_code is ErrorCode.invalid_request
    assert nobody.error_code is ErrorCode.transactional_id_not_found
    assert (nobody.transaction_state, nobody.producer_id) == ("", 0)
    assert nobody.transaction_start_time == EPOCH
    assert (await api.ask("DescribeTransactions", 0)).transaction_states == ()


async def test_a_finished_transaction_keeps_its_start(api: Api) -> None:
    pid, epoch = await api.producer("id")
    await api.ask("AddPartitionsToTxn", 3, **transaction("id", (pid, epoch), {"orders": [0]}))
    start = (await api.state("id", "Ongoing")).transaction_start_time
    await api.ask(
        "EndTxn", 4, transactional_id="id", producer_id=pid, producer_epoch=epoch, committed=False
    )
    done = await api.state("id", "CompleteAbort")
    assert (done.transaction_start_time, done.topics) == (start, ())


async def test_another_brokers_id_is_not_known_here(api_of_three: Api) -> None:
    api = api_of_three
    await api.producer("somebody")
    errors = set()
    for broker in (1, 2, 3):
        answer = await api.at(broker).ask("DescribeTransactions", 0, transactional_ids=["x1"])
        errors.add(answer.transaction_states[0].error_code)
    assert errors == {ErrorCode.not_coordinator, ErrorCode.transactional_id_not_found}


async def test_refusal_and_subject(api: Api) -> None:
    error = ErrorCode.coordinator_not_available
    refused = api.refuse("DescribeTransactions", 0, error, transactional_ids=["a", "b"])
    assert [one.error_code for one in refused.transaction_states] == [error, error]
    about = api.subject("DescribeTransactions", 0, transactional_ids=["a", "b"])
    assert about.transactional_id == "a"
    assert [one.transactional_id for one in about.others] == ["b"]
    assert api.subject("DescribeTransactions", 0).transactional_id is None
