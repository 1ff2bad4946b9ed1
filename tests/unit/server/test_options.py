from __future__ import annotations

import pytest

from txnsim.security.options import SecureListener, SecurityOptions, SecurityProtocol
from txnsim.server.options import ClusterOptions, port_step


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
