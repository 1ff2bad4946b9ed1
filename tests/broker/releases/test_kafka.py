"""The few facts that clients depend on; all of them are compared in tests/broker/wire."""

from __future__ import annotations

import operator
from typing import Any, cast

import pytest

from txnsim.releases import LATEST_RULES, REFERENCE, RELEASES


def test_produce_is_advertised_from_zero_but_works_from_three() -> None:
    assert REFERENCE.api_versions[0] == (0, 13)
    assert not REFERENCE.accepts(0, 2)
    assert REFERENCE.accepts(0, 3)


def test_unstable_init_producer_id_six_is_hidden() -> None:
    assert REFERENCE.api_versions[22] == (0, 5)


@pytest.mark.parametrize("key", [4, 5, 6, 7, 67, 71, 72])
def test_keys_that_are_no_business_of_clients_are_hidden(key: int) -> None:
    assert key not in REFERENCE.api_versions


def test_new_clusters_run_transactions_v2() -> None:
    feature = REFERENCE.features["transaction.version"]
    assert (feature.min_level, feature.max_level, feature.new_cluster_level) == (0, 2, 2)


def test_data_of_a_release_is_read_only() -> None:
    with pytest.raises(TypeError):
        operator.setitem(cast("Any", REFERENCE.api_versions), 0, (0, 0))


def test_release_is_found_by_its_name() -> None:
    assert RELEASES[REFERENCE.name] is REFERENCE


def test_the_reference_goes_by_the_default_rules() -> None:
    assert REFERENCE.rules == LATEST_RULES
