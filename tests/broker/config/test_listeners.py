"""The listeners of a broker's properties."""

from __future__ import annotations

import pytest

from txnsim.config._listeners import Listeners, read_listeners
from txnsim.config.properties import Property
from txnsim.security.options import SecurityProtocol


def read(**given: str) -> Listeners:
    entries = {
        name: Property(line=1, name=name, value=value)
        for name, value in ((key.replace("_", "."), value) for key, value in given.items())
    }
    return read_listeners(entries)


def complaint(**given: str) -> tuple[str, str]:
    """The property that is refused, and why."""
    ((entry, message),) = read(**given).refused
    return entry.name, message


def test_without_listeners_nothing_is_said() -> None:
    assert read() == Listeners()


@pytest.mark.parametrize(
    ("value", "host", "port"),
    [
        ("PLAINTEXT://:9092", "0.0.0.0", 9092),
        ("PLAINTEXT://localhost:0", "localhost", 0),
        ("plaintext://[::1]:9092", "::1", 9092),
        ("CONTROLLER://:9093, PLAINTEXT://a:1", "a", 1),
    ],
)
def test_listeners_for_clients_and_for_controllers_differ(value: str, host: str, port: int) -> None:
    found = read(listeners=value, controller_listener_names="CONTROLLER")
    ((listener),) = found.clients
    assert (listener.name, listener.host, listener.port) == ("PLAINTEXT", host, port)
    assert (found.refused, found.odd) == ((), ())
    assert found.controllers == {"CONTROLLER"}


def test_a_node_that_is_only_a_controller_opens_no_listener() -> None:
    found = read(listeners="CONTROLLER://:9093", controller_listener_names="CONTROLLER")
    assert found.clients == ()


def test_a_listener_name_is_looked_up_in_the_protocol_map() -> None:
    protocols = "INSIDE:PLAINTEXT, outside:sasl_ssl"
    found = read(listeners="INSIDE://:1,OUTSIDE://:2", listener_security_protocol_map=protocols)
    assert [one.protocol for one in found.clients] == [
        SecurityProtocol.PLAINTEXT,
        SecurityProtocol.SASL_SSL,
    ]
    (plain,) = read(listeners="SSL://:1").clients
    assert plain.protocol is SecurityProtocol.SSL


def test_a_listener_without_a_protocol_is_refused() -> None:
    assert complaint(listeners="INSIDE://:1") == (
        "listeners",
        "listener INSIDE: its name names no security protocol",
    )
    # A map replaces the names of the protocols altogether.
    assert complaint(
        listeners="PLAINTEXT://:1", listener_security_protocol_map="INSIDE:PLAINTEXT"
    ) == (
        "listeners",
        "listener PLAINTEXT: listener.security.protocol.map names no security protocol",
    )
    name, message = complaint(listener_security_protocol_map="INSIDE:TLS", listeners="INSIDE://:1")
    assert name == "listener.security.protocol.map"
    assert message.endswith("found 'INSIDE:TLS'")


@pytest.mark.parametrize(
    "value", ["9092", "PLAINTEXT:9092", "PLAINTEXT://:x", "PLAINTEXT://:65536"]
)
def test_what_is_no_listener_is_refused(value: str) -> None:
    assert complaint(listeners=value)[1] == f"expected NAME://HOST:PORT, found {value!r}"


def test_names_are_unique() -> None:
    assert complaint(listeners="SSL://:1,ssl://:2")[1] == "there are two listeners SSL"


def test_each_listener_is_advertised_by_its_own_host() -> None:
    found = read(
        listeners="PLAINTEXT://:1,SSL://:2",
        advertised_listeners="SSL://a:2,PLAINTEXT://:1",
    )
    assert [one.advertised_host for one in found.clients] == [None, "a"]
    assert found.odd == ()
    (alone,) = read(advertised_listeners="PLAINTEXT://a:9092").clients
    assert (alone.port, alone.advertised_host) == (9092, "a")


def test_the_real_port_is_advertised() -> None:
    found = read(listeners="PLAINTEXT://:1", advertised_listeners="PLAINTEXT://a:2")
    (message,) = (message for _, message in found.odd)
    assert message == "where there are several brokers, clients get the real port, 1"
    free = read(listeners="PLAINTEXT://:0", advertised_listeners="PLAINTEXT://a:2")
    assert free.odd == ()


def test_an_address_without_a_way_to_it_is_not_advertised() -> None:
    name, message = complaint(
        listeners="PLAINTEXT://:1", advertised_listeners="PLAINTEXT://0.0.0.0:1"
    )
    assert (name, message) == ("advertised.listeners", "clients can't connect to 0.0.0.0")
    assert complaint(listeners="PLAINTEXT://:1", advertised_listeners="SSL://a:1")[1] == (
        "there is no listener SSL among the listeners"
    )
