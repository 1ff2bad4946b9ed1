"""Work of a cluster runs in its loop, whoever wants it."""

from __future__ import annotations

import asyncio
import threading

import pytest

from txnsim.testing.event_loop import ClusterLoop, LoopThread, blocking, in_cluster_loop


class InClusterLoop:
    def __init__(self, cluster_loop: ClusterLoop) -> None:
        self.cluster_loop = cluster_loop

    @in_cluster_loop
    async def thread(self, *, must_fail: bool = False) -> str:
        """Where it runs."""
        if must_fail:
            raise LookupError("no")
        return threading.current_thread().name


class Twin:
    def __init__(self, in_loop: InClusterLoop) -> None:
        self.asynchronous = in_loop

    thread = blocking(InClusterLoop.thread)


@pytest.fixture
def loop_thread():
    thread = LoopThread()
    yield thread
    thread.stop()
    assert not thread.is_alive


async def test_from_its_own_loop_it_is_awaited_directly() -> None:
    cluster_loop = ClusterLoop(asyncio.get_running_loop())
    assert await InClusterLoop(cluster_loop).thread() == threading.current_thread().name


async def test_from_another_loop_it_runs_in_the_cluster_s_thread(loop_thread: LoopThread) -> None:
    assert await InClusterLoop(loop_thread.cluster_loop).thread() == "txnsim"


def test_a_thread_that_blocks_gets_the_result(loop_thread: LoopThread) -> None:
    assert Twin(InClusterLoop(loop_thread.cluster_loop)).thread() == "txnsim"


def test_failures_come_through(loop_thread: LoopThread) -> None:
    with pytest.raises(LookupError, match="no"):
        Twin(InClusterLoop(loop_thread.cluster_loop)).thread(must_fail=True)


async def test_blocking_in_the_cluster_s_own_loop_is_refused_instead_of_waiting_for_ever() -> None:
    cluster_loop = ClusterLoop(asyncio.get_running_loop())
    with pytest.raises(RuntimeError, match="use AsyncSimulatedKafka here"):
        Twin(InClusterLoop(cluster_loop)).thread()


async def test_who_stops_waiting_cancels_the_work(loop_thread: LoopThread) -> None:
    begin_event, cancelled_event = threading.Event(), threading.Event()

    async def endless() -> None:
        begin_event.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled_event.set()

    wait_task = asyncio.ensure_future(  # noqa: TID251 - the test itself owns it
        loop_thread.cluster_loop.run(endless())
    )
    await asyncio.to_thread(begin_event.wait, 10)
    wait_task.cancel()
    assert await asyncio.to_thread(cancelled_event.wait, 10)


def test_a_twin_has_the_name_and_the_words_of_its_model() -> None:
    assert Twin.thread.__name__ == "thread"
    assert Twin.thread.__doc__ == "Where it runs."
