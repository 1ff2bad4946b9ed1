"""The cases to the simulator, held against what a real Apache Kafka answered; no Java, no clock.

Each play has a cluster of its own in virtual time, so plays come in any order and on any number of
workers, and no busy machine lets a transaction time out between two steps. It runs the release that
answered. The cluster starts at the lowest level of ``transaction.version`` and is upgraded, as the
real one was.
"""

from __future__ import annotations

import contextlib
from functools import cache

import pytest

from tests.conformance.cluster_setups import ClusterSetup, setup_of, trace_level_at, virtual_on
from tests.support.virtual_world import VirtualWorld
from txnsim_lab.conformance._book import answers
from txnsim_lab.conformance._book.case_player import finalize_level, play
from txnsim_lab.conformance._book.casebook_reader import Case, broker_configs, cases
from txnsim_lab.conformance._book.frame_player import FramePlayer
from txnsim_lab.conformance._book.model import TXN_LEVELS
from txnsim_lab.conformance._book.recordings import answer_differences

PLAYS = [
    (case, transaction_version)
    for transaction_version in TXN_LEVELS
    for case in cases()
    if transaction_version in case.text.levels
]
EXHAUSTED = "coordinator/exhausted"
recorded = cache(answers.read_recordings)


@cache
def setups() -> dict[str, ClusterSetup]:
    return {broker_name: setup_of(config) for broker_name, config in broker_configs().items()}


def id_of(case: Case, transaction_version: int) -> str:
    return f"{case.id}-tv{transaction_version}"


def marks_of(case: Case, transaction_version: int) -> tuple[pytest.MarkDecorator, ...]:
    """The quick check plays each case at its highest level, unless it climbs through all epochs.
    Where Kafka answered as at a higher level, the case is played again only by ``make nightly``.
    """
    recordings = recorded(case.file).get(case.name, {})
    higher = [
        recorded_exchanges
        for other_level, recorded_exchanges in recordings.items()
        if other_level > transaction_version
    ]
    if transaction_version in recordings and recordings[transaction_version] in higher:
        return (pytest.mark.thorough,)
    is_quick = transaction_version == max(case.text.levels) and case.file != EXHAUSTED
    return () if is_quick else (pytest.mark.slow,)


@pytest.mark.parametrize("transaction_version", TXN_LEVELS)
def test_a_leap_leaves_what_each_single_step_leaves(
    transaction_version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    descriptions = []
    for leaps in (True, False):
        if not leaps:
            monkeypatch.setattr(VirtualWorld, "abilities", frozenset())
        with virtual_on(setups()["default"], TXN_LEVELS[0]) as virtual_world:
            finalize_level(virtual_world.bootstrap, transaction_version)
            with contextlib.closing(
                FramePlayer(virtual_world.bootstrap, play_prefix="leap", level=transaction_version)
            ) as player:
                player.raise_epoch("p", 100)
                answer = player.ask_unrecorded("DescribeTransactions", 0, transactional_ids=["p"])
                descriptions.append(answer.transaction_states[0])
                of_the_last = {
                    "transactional_id": "p",
                    "transaction_timeout": 60_000,
                    "producer_id": descriptions[-1].producer_id,
                    "producer_epoch": 99,
                }
                descriptions.append(player.ask_unrecorded("InitProducerId", 4, **of_the_last))
    assert descriptions[2:] == descriptions[:2]
    assert descriptions[0].producer_epoch == 100


@pytest.mark.parametrize(
    ("case", "transaction_version"),
    [pytest.param(*play, id=id_of(*play), marks=marks_of(*play)) for play in PLAYS],
)
def test_the_simulator_answers_as_kafka_did(case: Case, transaction_version: int) -> None:
    recorded_exchanges = recorded(case.file).get(case.name, {}).get(transaction_version)
    assert recorded_exchanges is not None, "record it: python -m tests.conformance.record_cases"
    release = answers.recorded_release(case.file)
    with virtual_on(
        setups()[case.broker],
        TXN_LEVELS[0],
        release,
        trace_level=trace_level_at(transaction_version),
    ) as virtual_world:
        finalize_level(virtual_world.bootstrap, transaction_version)
        play_result = play(case, virtual_world, transaction_version)
    differences = [
        *answer_differences(recorded_exchanges, play_result.transcript),
        *play_result.unshown_rules,
    ]
    advice = f"If the case has changed: python -m tests.conformance.record_cases --case {case.id}"
    assert not differences, "\n".join(
        [f"{len(differences)} differences (Kafka != ours):", *differences, advice]
    )
