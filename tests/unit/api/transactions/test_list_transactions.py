"""ListTransactions v0 to v2: filters by state, producer, duration and pattern."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.handlers import Api, transaction
from txnsim.errors import ErrorCode


@pytest.fixture
async def listed(api: Api) -> Api:
    """The api with one open and one idle transactional id."""
    identity = await api.producer("open")
    await api.ask("AddPartitionsToTxn", 3, **transaction("open", identity, {"orders": [0]}))
    await api.producer("idle")
    return api


def ids(answer: Any) -> list[str]:
    return sorted(one.transactional_id for one in answer.transaction_states)


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize(
    ("states", "found", "unknown"),
    [
        ([], ["idle", "open"], ()),
        (["Ongoing"], ["open"], ()),
        (["Empty", "Ongoing"], ["idle", "open"], ()),
        (["ongoing"], [], ("ongoing",)),
        (["Empty", "Nonsense"], ["idle"], ("Nonsense",)),
        (["Dead", "PrepareEpochFence"], [], ()),
    ],
)
async def test_by_state(
    listed: Api, version: int, states: list[str], found: list[str], unknown: tuple[str, ...]
) -> None:
    answer = await listed.ask("ListTransactions", version, state_filters=states)
    assert (ids(answer), answer.unknown_state_filters) == (found, unknown)
    assert answer.error_code is ErrorCode.none


@pytest.mark.parametrize("version", range(3))
async def test_by_producer(listed: Api, version: int) -> None:
    everything = await listed.ask("ListTransactions", version)
    pid = next(o.producer_id for o in everything.transaction_states if o.transactional_id == "open")
    assert ids(await listed.ask("ListTransactions", version, producer_id_filters=[pid])) == ["open"]
    assert ids(await listed.ask("ListTransactions", version, producer_id_filters=[pid + 99])) == []


@pytest.mark.parametrize("version", [1, 2])
async def test_by_duration_idle_ids_always_pass(listed: Api, version: int) -> None:
    listed.cluster.environment.clock.advance(5_000)
    for duration, found in (
        (-1, ["idle", "open"]),
        (1_000, ["idle", "open"]),
        (3_600_000, ["idle"]),
    ):
        answer = await listed.ask("ListTransactions", version, duration_filter=duration)
        assert ids(answer) == found


@pytest.mark.parametrize(
    ("pattern", "found"),
    [(None, ["idle", "open"]), ("", ["idle", "open"]), ("op.*", ["open"]), ("pen", [])],
)
async def test_by_pattern(listed: Api, pattern: str | None, found: list[str]) -> None:
    answer = await listed.ask("ListTransactions", 2, transactional_id_pattern=pattern)
    assert ids(answer) == found


@pytest.mark.parametrize("pattern", ["(", "(?=x)", "(.)\\1", "x*+"])
async def test_what_re2_can_not_compile_is_refused(listed: Api, pattern: str) -> None:
    wanted = {"transactional_id_pattern": pattern, "state_filters": ["Nonsense"]}
    answer = await listed.ask("ListTransactions", 2, **wanted)
    assert answer.error_code is ErrorCode.invalid_regular_expression
    assert (answer.transaction_states, answer.unknown_state_filters) == ((), ())


async def test_refusing(api: Api) -> None:
    answer = api.refuse("ListTransactions", 0, ErrorCode.coordinator_load_in_progress)
    assert answer.error_code is ErrorCode.coordinator_load_in_progress
    assert answer.transaction_states == ()
