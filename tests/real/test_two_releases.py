"""Brokers of two releases: what clients are answered, and in which versions brokers ask each other,
as real clusters were recorded to do it (``two_releases.jsonl``).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import pytest

from tests.real import two_releases
from tests.support.clusters import VirtualCluster, run_cluster
from txnsim.releases import RELEASES

LINES = {release.patch_release: release.name for release in RELEASES.values()} | {"3.5.2": "2.8"}
"""3.5 is no line of the simulator's; 2.8 is the one that does not know verification either."""
RECORDED = two_releases.kept()
PLAYED = [pair for pair in RECORDED if "3.5.2" not in pair]
"""Of these the simulator has both releases."""


@functools.cache
def simulated(pair: str) -> Mapping[str, Any]:
    """What a simulated cluster of the pair's release lines answers."""
    first, second = (LINES[one] for one in pair.split("+"))

    async def main(cluster: VirtualCluster) -> Mapping[str, Any]:
        async with cluster.client() as client:
            return await two_releases.story(client)

    return run_cluster(main, brokers=2, topics=(), as_version=(f"{first},2={second}",))


@pytest.mark.parametrize("pair", RECORDED)
def test_clients_are_answered_as_by_the_real_brokers(pair: str) -> None:
    told = {key: value for key, value in simulated(pair).items() if "lists" not in key}
    assert told == {key: RECORDED[pair]["answers"][key] for key in told}


@pytest.mark.real
@pytest.mark.parametrize("pair", ["3.5.2+3.6.2", "3.9.2+4.4.0"])
def test_the_real_brokers_do_what_was_recorded(pair: str) -> None:
    assert two_releases.play(pair) == RECORDED[pair]
