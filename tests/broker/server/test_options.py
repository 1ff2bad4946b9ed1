from __future__ import annotations

import pytest

from txnsim.errors import ConfigError
from txnsim.security.options import SecureListener, SecurityOptions, SecurityProtocol
from txnsim.server.options import ClusterOptions, check_release, port_step, topics_of


def test_brokers_are_numbered_from_where_it_is_asked_for() -> None:
    assert ClusterOptions(brokers=3, first_broker_id=0).broker_ids == (0, 1, 2)
    check_release(ClusterOptions(brokers=2, first_broker_id=7, as_version=("8=3.9",)), level=None)


def test_brokers_are_numbered_from_one() -> None:
    assert ClusterOptions(brokers=3).broker_ids == (1, 2, 3)


@pytest.mark.parametrize(
    ("ports", "brokers", "step"),
    [
        ((), 3, 1),
        ((9095,), 3, 1),
        ((9093,), 2, 2),  # a step of 1 gives broker 2 in clear what broker 1 has for TLS
        ((9093, 9094), 3, 3),
        ((0,), 3, 1),  # a free port collides with none
    ],
)
def test_no_two_listeners_want_the_same_port(
    ports: tuple[int, ...], brokers: int, step: int
) -> None:
    security = SecurityOptions(
        listeners=tuple(
            SecureListener(name=f"L{index}", protocol=SecurityProtocol.SASL_SSL, port=port)
            for index, port in enumerate(ports)
        )
    )
    assert port_step(ClusterOptions(brokers=brokers, port=9092, security=security)) == step


@pytest.mark.parametrize(
    ("given", "topics"),
    [
        ("orders", {"orders": 1}),
        ("orders:3", {"orders": 3}),
        ("orders:3, payments", {"orders": 3, "payments": 1}),
        (["orders", "payments:6"], {"orders": 1, "payments": 6}),
        (("orders",), {"orders": 1}),
        ({"orders": 3}, {"orders": 3}),
        ((), {}),
    ],
)
def test_topics_in_any_form(given: object, topics: dict[str, int]) -> None:
    assert topics_of(given) == topics


@pytest.mark.parametrize(
    "given", ["", "orders:", "orders:0", "orders:x", ":3", 3, [3], {"orders": 0}, {"orders": True}]
)
def test_topics_of_no_form_are_refused(given: object) -> None:
    with pytest.raises(ConfigError, match="expected NAME or NAME:PARTITIONS, as orders:3"):
        topics_of(given)


def test_a_level_that_no_release_knows_is_refused() -> None:
    old = ClusterOptions(as_version=("3.6",))
    check_release(old, level=0)
    check_release(old, level=None)
    with pytest.raises(ConfigError, match=r"brokers of 3\.6 know it up to 0 only"):
        check_release(old, level=1)
