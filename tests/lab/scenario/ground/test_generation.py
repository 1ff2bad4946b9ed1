from __future__ import annotations

import pytest

from tests.support.clusters import real_cluster
from txnsim.client.connection import ClientSettings
from txnsim_lab.scenario.ground.generation import Generation, generation_of

MODES = ("V-", "V+", "TV2", "TV2+")


@pytest.mark.parametrize(
    ("level", "verification", "strict", "modes"),
    [
        (0, {False}, False, ("V-",)),
        (0, {True}, False, ("V+",)),
        (1, {True}, True, ("V+",)),
        (1, (), True, ("V-", "V+")),
        (1, {True, False}, True, ()),
        (2, {True}, False, ("TV2",)),
        (2, {True}, True, ("TV2+",)),
        (2, {False}, True, ()),
    ],
)
def test_a_cluster_is_the_world_of_these_modes(
    level: int, verification: set[bool], strict: bool, modes: tuple[str, ...]
) -> None:
    cluster = Generation(
        transaction_version=level,
        verification=frozenset(verification),
        has_strict_markers=strict,
    )
    assert modes == tuple(
        mode for mode in MODES if cluster.why_not(mode, markers_matter=True) is None
    )


def test_where_a_story_is_the_same_with_strict_markers_both_will_do() -> None:
    cluster = Generation(transaction_version=2, has_strict_markers=True)
    assert cluster.why_not("TV2", markers_matter=False) is None


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
