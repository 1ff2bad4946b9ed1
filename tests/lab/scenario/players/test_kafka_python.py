from __future__ import annotations

import logging

import pytest

from tests.support.clusters import real_cluster
from txnsim.errors import ClientError
from txnsim.types import TopicPartition
from txnsim_lab.scenario.players.casting import Casting, cast

pytest.importorskip("kafka", reason="the extra `demo` is not installed")

from txnsim_lab.scenario.players._base import PLAYERS, PlayerPart
from txnsim_lab.scenario.players._kafka_python import KafkaPythonPlayer, LogCollector, explain

P0 = TopicPartition("orders", 0)


def record(
    text: str, transaction_version: int = logging.WARNING, error: Exception | None = None
) -> logging.LogRecord:
    info = None if error is None else (type(error), error, error.__traceback__)
    return logging.LogRecord("kafka", transaction_version, __file__, 1, text, (), info)


def reset_producer_id() -> None:
    raise RuntimeError("not for transactional producers")


def test_what_it_logged_is_shortened_and_its_own_traceback_explained() -> None:
    assert explain([]) == ()
    (line,) = explain([record("Request timed out" + "!" * 200 + "\nmore")])
    assert line.startswith("kafka-python logged what happened to it, beginning with: Request timed")
    assert line.endswith("!…")
    try:
        reset_producer_id()
    except RuntimeError as error:
        records = [record("short"), record("failed", logging.ERROR, error)]
    first_explanation, second_explanation = explain(records)
    assert first_explanation.endswith("beginning with: short")
    assert "reset_producer_id" in second_explanation


def test_what_the_client_logs_is_kept_and_not_printed_while_somebody_listens(
    capsys: pytest.CaptureFixture[str],
) -> None:
    logger = logging.getLogger("kafka.producer")
    propagates = logging.getLogger("kafka").propagate
    first_collector, second_collector = LogCollector(), LogCollector()
    first_collector.open()
    second_collector.open()
    logger.warning("heard by both")
    first_collector.close()
    first_collector.close()
    logger.warning("heard by the other")
    assert not logging.getLogger("kafka").propagate
    second_collector.close()
    assert logging.getLogger("kafka").propagate is propagates is True
    assert [
        len(log_collector.records) for log_collector in (first_collector, second_collector)
    ] == [1, 2]
    assert capsys.readouterr().err == ""


async def test_a_stock_client_plays_whole_transactions() -> None:
    async with real_cluster(level=1) as cluster:
        part = PlayerPart(
            bootstrap=cluster.bootstrap,
            transactional_id="app",
            client_id="late-producer",
            topic="orders",
            partition=0,
            now_ms=0,
        )
        player = cast(PLAYERS, Casting(player="kafka-python"), run_name="a test").make(part)
        assert isinstance(player, KafkaPythonPlayer)
        try:
            await player.begin()
            await player.send("x", P0)
            assert await player.await_ack() == 0
            with pytest.raises(ClientError, match="acknowledged though its request is held"):
                await player.give_up()
            await player.abort()
            with pytest.raises(ClientError, match=r"^kafka-python: "):
                await player.abort()
            await player.begin()
            await player.send("y", P0)
            await player.await_ack()
            await player.commit()
        finally:
            await player.close()
        await player.close()


async def test_a_player_that_never_began_leaves_without_a_trace() -> None:
    player = KafkaPythonPlayer(
        PlayerPart(
            bootstrap="127.0.0.1:1",
            transactional_id="a",
            client_id="c",
            topic="t",
            partition=0,
            now_ms=0,
        )
    )
    await player.close()
    assert player.remarks() == ()
