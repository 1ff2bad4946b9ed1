"""What ``--as-version`` may say."""

from __future__ import annotations

import pytest

from txnsim.errors import ConfigError
from txnsim.releases import REFERENCE, RELEASES
from txnsim.releases._catalog import fleet_from, release_named
from txnsim.releases.kafka import RELEASE_3_9, RELEASE_4_0
from txnsim.releases.release import line_of
from txnsim.types import BrokerId

ONE, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)


def test_releases_are_found_by_their_names_oldest_first() -> None:
    assert list(RELEASES) == sorted(RELEASES, key=line_of)
    assert all(release_named(name) is release for name, release in RELEASES.items())


def test_a_broker_that_is_not_named_is_of_the_reference() -> None:
    fleet = fleet_from((), brokers=3)
    assert all(fleet.of(broker) is REFERENCE for broker in (ONE, TWO, THREE))


@pytest.mark.parametrize(
    "wishes", [("4.0,1=3.9",), ("4.0", "1=3.9"), ("1=3.9", "4.0"), (" 1 = 3.9 , 4.0 ",)]
)
def test_one_release_for_all_and_others_for_single_brokers(wishes: tuple[str, ...]) -> None:
    fleet = fleet_from(wishes, brokers=3)
    assert [fleet.of(broker) for broker in (ONE, TWO, THREE)] == [
        RELEASE_3_9,
        RELEASE_4_0,
        RELEASE_4_0,
    ]


def test_the_last_wish_for_a_broker_wins() -> None:
    fleet = fleet_from(("3.9", "4.0", "2=4.3,2=3.9"), brokers=3)
    assert [fleet.of(broker) for broker in (ONE, TWO)] == [RELEASE_4_0, RELEASE_3_9]


@pytest.mark.parametrize("wish", ["5.0", "3.9.2", "", "1=", "1=5.0"])
def test_a_release_that_does_not_exist_is_refused(wish: str) -> None:
    with pytest.raises(ConfigError, match=r"there is no release .* only 2\.8, 3\.6"):
        fleet_from((wish,), brokers=3)


@pytest.mark.parametrize("wish", ["0=3.9", "4=3.9", "x=3.9", "=3.9", "-1=3.9"])
def test_a_broker_that_does_not_exist_is_refused(wish: str) -> None:
    with pytest.raises(ConfigError, match="there is no broker"):
        fleet_from((wish,), brokers=3)


def test_brokers_may_have_other_ids() -> None:
    ids = (BrokerId(0), BrokerId(7))
    fleet = fleet_from(("7=3.9",), brokers=2, broker_ids=ids)
    assert [fleet.of(broker_id).name for broker_id in ids] == [REFERENCE.name, "3.9"]
    with pytest.raises(ConfigError, match="there is no broker '1'"):
        fleet_from(("1=3.9",), brokers=2, broker_ids=ids)
