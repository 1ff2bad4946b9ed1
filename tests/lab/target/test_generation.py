from __future__ import annotations

import pytest

from tests.support.clusters import real_cluster
from txnsim.client.connection import ClientSettings
from txnsim_lab.target.generation import Generation, generation_of


@pytest.mark.parametrize(
    ("options", "settings", "said"),
    [
        ({}, {}, "transaction.version 2 with verification, strict markers (KIP-1228)"),
        ({"as_version": ("4.1",)}, {}, "transaction.version 2 with verification"),
        (
            {"level": 0},
            {"transaction_partition_verification_enable": False},
            "transaction.version 0 without verification, strict markers (KIP-1228)",
        ),
    ],
)
async def test_brokers_are_asked(
    options: dict[str, object], settings: dict[str, object], said: str
) -> None:
    async with real_cluster(**options, **settings) as sim:
        assert str(await generation_of(sim.bootstrap, ClientSettings())) == said


def test_brokers_that_differ_are_said_to() -> None:
    cluster = Generation(
        transaction_version=1, verification=frozenset({True, False}), has_strict_markers=False
    )
    assert str(cluster) == "transaction.version 1, verification at some of its brokers"
