"""Where jobs are done, and that they are the same everywhere; Spark's part is in
tests/spark/pipeline.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence

import pytest

from tests.support.engines import local_engine, no_session
from txnsim_spark.engine import (
    OPEN_BYTES,
    PROCESSES_COST_MIN,
    SPARK_COST_MIN,
    Engine,
    EngineJob,
    EngineKind,
    can_fork,
    cost_of,
)


def pieces_of(task: int) -> Iterator[tuple[str, int]]:
    for number in range(task):
        yield ("even", "odd")[number % 2], number


def join_pieces(key: str, piece_numbers: Sequence[int]) -> tuple[str, list[int]]:
    return key, sorted(piece_numbers)


@pytest.mark.parametrize("engine_kind", [EngineKind.HERE, EngineKind.PROCESSES])
def test_what_has_one_key_is_put_together(engine_kind: EngineKind) -> None:
    results = local_engine().results_of(
        EngineJob(tasks=(3, 0, 4), read_task=pieces_of, join_pieces=join_pieces), engine_kind
    )
    assert results == {"even": ("even", [0, 0, 2, 2]), "odd": ("odd", [1, 1, 3])}


def process_of(_task: int) -> Iterator[tuple[str, int]]:
    yield "processes", os.getpid()


def test_processes_are_others() -> None:
    job = EngineJob(tasks=(1, 2), read_task=process_of, join_pieces=join_pieces)
    assert os.getpid() not in local_engine().results_of(job, EngineKind.PROCESSES)["processes"][1]
    assert local_engine().results_of(job, EngineKind.HERE)["processes"][1] == [os.getpid()] * 2


def wrong(_task: int) -> Iterator[tuple[str, int]]:
    raise ValueError("a bug")


@pytest.mark.parametrize("engine_kind", [EngineKind.HERE, EngineKind.PROCESSES])
def test_what_goes_wrong_is_heard(engine_kind: EngineKind) -> None:
    with pytest.raises(ValueError, match="a bug"):
        local_engine().results_of(
            EngineJob(tasks=(1,), read_task=wrong, join_pieces=join_pieces), engine_kind
        )


@pytest.mark.parametrize(
    ("cost", "options", "engine_kind"),
    [
        (0, {"with_spark": True}, EngineKind.HERE),
        (1, {"with_spark": True}, EngineKind.SPARK),
        (PROCESSES_COST_MIN - 1, {}, EngineKind.HERE),
        (PROCESSES_COST_MIN, {}, EngineKind.PROCESSES),
        (SPARK_COST_MIN, {}, EngineKind.PROCESSES),
        (SPARK_COST_MIN + 1, {}, EngineKind.SPARK),
        (SPARK_COST_MIN + 1, {"is_alone": True}, EngineKind.HERE),
    ],
)
def test_where_a_job_is_done(
    cost: int, options: dict[str, bool], engine_kind: EngineKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("txnsim_spark.engine.can_fork", lambda: True)
    assert Engine(no_session, print, **options).kind_for(cost) is engine_kind


def test_files_cost_their_bytes_and_their_openings() -> None:
    assert cost_of([10, 0, 5]) == 15 + 2 * OPEN_BYTES
    assert cost_of([10], is_decoded=True) == 160 + OPEN_BYTES
    assert cost_of([1] * 100_000) > SPARK_COST_MIN


def test_no_process_is_forked_beside_threads() -> None:
    over_event = threading.Event()
    thread = threading.Thread(target=over_event.wait)
    thread.start()
    try:
        assert not can_fork()
        assert local_engine().kind_for(PROCESSES_COST_MIN) is EngineKind.HERE
        assert Engine(no_session, print).kind_for(PROCESSES_COST_MIN) is EngineKind.HERE
    finally:
        over_event.set()
        thread.join()
