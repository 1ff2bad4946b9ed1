"""The judge of recipes convicts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest

from tests.recipes import judge as judging
from tests.recipes.judge import Judge, RecipeError
from tests.support.txnsim_server import TxnsimServer
from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.producer import Producer

pytestmark = pytest.mark.slow

TOPIC = "receipts-1"


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with TxnsimServer(brokers=1) as server:
        yield server.bootstrap


@pytest.fixture
def judge(bootstrap: str) -> Iterator[Judge]:
    judge = Judge(bootstrap)
    _do(bootstrap, _create)
    yield judge
    _do(bootstrap, _delete)


def test_each_value_must_be_there_as_often_as_it_is_named(bootstrap: str, judge: Judge) -> None:
    _do(bootstrap, lambda cluster: _write(cluster, "a", "b", "b"))
    judge.assert_exactly_once(judge.only_topic("receipts-"), ["a", "b", "b"])
    for wrong_values in (["a", "b"], ["a", "b", "b", "c"], ["b", "b"]):
        with pytest.raises(RecipeError, match="1 values are not there exactly once"):
            judge.assert_exactly_once(TOPIC, wrong_values)


def test_what_was_aborted_does_not_count_but_must_be_there(bootstrap: str, judge: Judge) -> None:
    _do(bootstrap, lambda cluster: _write(cluster, "a"))
    with pytest.raises(RecipeError, match="no failure was survived"):
        judge.assert_aborted(TOPIC)
    _do(bootstrap, lambda cluster: _write(cluster, "a", is_commit=False))
    assert judge.assert_aborted(TOPIC) == 1
    judge.assert_exactly_once(TOPIC, ["a"])


def test_an_open_transaction_is_found(
    bootstrap: str, judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judging, "_PATIENCE_S", 0.0)

    async def leave_open(cluster: Cluster) -> None:
        async with Producer(cluster, transactional_id="open") as producer:
            await producer.init_transactions()
            producer.begin()
            await producer.send(TOPIC, 0, b"a")
            with pytest.raises(RecipeError, match="last stable offsets"):
                await asyncio.to_thread(judge.committed_records, TOPIC)
            with pytest.raises(RecipeError, match=r"don't end: .*'open': 'Ongoing'"):
                await asyncio.to_thread(judge.transactional_ids)
            await producer.abort()

    _do(bootstrap, leave_open)
    assert judge.transactional_ids()["open"] == "CompleteAbort"


def test_there_must_be_one_new_topic(bootstrap: str, judge: Judge) -> None:
    with pytest.raises(RecipeError, match=r"topics that begin with 'orders-': \[\]"):
        judge.only_topic("orders-")
    with pytest.raises(RecipeError, match=r"topics that begin with 'receipts-': \[\]"):
        Judge(bootstrap).only_topic("receipts-")


async def _create(cluster: Cluster) -> None:
    await Admin(cluster).create_topic(TOPIC, partitions=1)


async def _delete(cluster: Cluster) -> None:
    assert await Admin(cluster).delete_topics([TOPIC]) == {TOPIC: None}


async def _write(cluster: Cluster, *record_values: str, is_commit: bool = True) -> None:
    async with Producer(cluster, transactional_id="writer") as producer:
        await producer.init_transactions()
        producer.begin()
        await asyncio.gather(
            *(producer.send(TOPIC, 0, record_value.encode()) for record_value in record_values)
        )
        await (producer.commit() if is_commit else producer.abort())


def _do(bootstrap: str, work: Callable[[Cluster], Awaitable[None]]) -> None:
    async def run_work() -> None:
        async with Cluster(bootstrap) as cluster:
            await work(cluster)

    asyncio.run(run_work())
