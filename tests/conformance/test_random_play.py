"""A short random play against a real Apache Kafka; and that the comparison can fail at all."""

from __future__ import annotations

import pytest

from tests.conformance.random_play import Play, Result, both_brokers, our_broker, report

SEED = 20_261_120
OPERATIONS = 300
OPERATIONS_OF_OURS = 150


@pytest.mark.real
@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_random_play_meets_no_difference(level: int) -> None:
    with both_brokers(level) as addresses:
        result = Play(addresses, level=level, seed=SEED).run(OPERATIONS)
    assert not result.differences, "\n".join(report(result))
    assert result.succeeded.total() > 0.3 * OPERATIONS
    visited = {(api, state) for _, api, state, _ in result.visits}
    assert len(visited) > 30, "a play goes to many places"


def played_by_two_of_ours(**rules_of_one: str) -> Result:
    with our_broker(2) as one, our_broker(2, **rules_of_one) as other:
        return Play((one, other), level=2, seed=SEED).run(OPERATIONS_OF_OURS)


@pytest.mark.slow
def test_brokers_that_are_alike_do_not_differ_and_a_seed_asks_the_same_again() -> None:
    first, second = played_by_two_of_ours(), played_by_two_of_ours()
    assert not first.differences, "\n".join(report(first))
    assert first.visits == second.visits


@pytest.mark.slow
def test_brokers_that_differ_in_one_rule_are_told_apart() -> None:
    result = played_by_two_of_ours(transaction_partition_verification_enable="false")
    assert result.differences, "a broker that verifies nothing takes what the other refuses"
    assert all(one.operation.api == "Produce" for one in result.differences)
