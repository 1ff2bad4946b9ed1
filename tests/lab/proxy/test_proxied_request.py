"""Where a request at a proxy comes from; and that faults do at a proxy what they do at a broker:
those stories are written in ``tests/broker/server/test_client_fault_points.py``.
"""

from __future__ import annotations

import pytest

from tests.broker.server import test_client_fault_points as at_a_broker
from tests.support.proxied_cluster import run_proxied
from txnsim_lab.proxy._proxied_request import peer_of


@pytest.mark.parametrize(
    ("client_id", "source"),
    [
        ("1", "broker/1"),
        ("broker-12-fetcher-0", "broker/12"),
        ("broker-3-txn-marker-sender", "broker/3"),
        ("AddPartitionsManager-client-1", "broker/1"),
        ("app", "client/app"),
        (None, "client/"),
    ],
)
def test_brokers_are_known_by_their_client_ids(client_id: str | None, source: str) -> None:
    assert peer_of(client_id) == source


@pytest.fixture(autouse=True)
def told_through_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(at_a_broker.StoryStage, "run", run_proxied)


globals().update(
    {
        attribute_name: test
        for attribute_name, test in vars(at_a_broker).items()
        if attribute_name.startswith("test_")
    }
)
