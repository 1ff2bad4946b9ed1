"""What a broker's listeners mean here."""

from __future__ import annotations

import pytest

from sim.config.listeners import Address, read_listeners
from sim.config.properties import Property


def read(**given: str) -> tuple[Address, list[str], list[str]]:
    entries = {
        name: Property(line=1, name=name, value=value)
        for name, value in ((key.replace("_", "."), value) for key, value in given.items())
    }
    address, refused, odd = read_listeners(entries)
    return address, [message for _, message in refused], [message for _, message in odd]


def test_without_listeners_nothing_is_said() -> None:
    assert read() == (Address(), [], [])


@pytest.mark.parametrize(
    ("value", "host", "port"),
    [
        ("PLAINTEXT://:9092", "0.0.0.0", 9092),
        ("PLAINTEXT://localhost:0", "localhost", 0),
        ("plaintext://[::1]:9092", "::1", 9092),
        ("CONTROLLER://:9093, PLAINTEXT://a:1", "a", 1),
    ],
)
def test_the_first_listener_for_clients_is_the_address(value: str, host: str, port: int) -> None:
    address, refused, odd = read(listeners=value, controller_listener_names="CONTROLLER")
    assert (address.host, address.port) == (host, port)
    assert (refused, odd) == ([], [])


def test_a_node_that_is_only_a_controller_opens_no_listener() -> None:
    found = read(listeners="CONTROLLER://:9093", controller_listener_names="CONTROLLER")
    assert found == (Address(), [], [])


def test_a_listener_name_is_looked_up_in_the_protocol_map() -> None:
    protocols = "INSIDE:PLAINTEXT,OUTSIDE:SSL"
    inside = read(listeners="INSIDE://:1", listener_security_protocol_map=protocols)
    outside = read(listeners="OUTSIDE://:1", listener_security_protocol_map=protocols)
    unmapped = read(listeners="PLAINTEXT://:1", listener_security_protocol_map=protocols)
    assert inside[1] == unmapped[1] == []
    assert outside[1] == [
        "listener OUTSIDE is SSL, files open PLAINTEXT only (docs/security.md has the others)"
    ]


@pytest.mark.parametrize(
    "value", ["9092", "PLAINTEXT:9092", "PLAINTEXT://:x", "PLAINTEXT://:65536"]
)
def test_what_is_no_listener_is_refused(value: str) -> None:
    assert read(listeners=value)[1] == [f"expected NAME://HOST:PORT, found {value!r}"]


def test_clients_are_told_the_real_port() -> None:
    _, refused, odd = read(listeners="PLAINTEXT://:1", advertised_listeners="PLAINTEXT://a:2")
    assert (refused, odd) == ([], ["clients are told the real port, 1"])
