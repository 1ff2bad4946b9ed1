"""Options that make no sense are refused, and the message names them."""

from __future__ import annotations

import pytest

from txnsim.errors import ConfigError
from txnsim_lab.proxy.addresses import Endpoint
from txnsim_lab.proxy.options import ProxyOptions, peer_from


def test_a_peer_is_a_node_and_where_it_is() -> None:
    assert peer_from("3=kafka-3:9094") == Endpoint(3, "kafka-3", 9094)
    assert peer_from("1=[::1]:9094") == Endpoint(1, "::1", 9094)


@pytest.mark.parametrize("text", ["", "1", "1=", "1=host", "x=host:1", "1=:9", "1=host:x"])
def test_anything_else_is_no_peer(text: str) -> None:
    with pytest.raises(ConfigError, match="NODE=HOST:PORT"):
        peer_from(text)


def test_clients_are_told_where_to_connect() -> None:
    assert ProxyOptions(bootstrap="b:1").reached_at == "127.0.0.1"
    assert ProxyOptions(bootstrap="b:1", host="10.0.0.1").reached_at == "10.0.0.1"
    everywhere = ProxyOptions(bootstrap="b:1", host="0.0.0.0", advertised_host="me.test")
    assert everywhere.reached_at == "me.test"
    with pytest.raises(ConfigError, match="--advertised-host"):
        _ = ProxyOptions(bootstrap="b:1", host="0.0.0.0").reached_at
