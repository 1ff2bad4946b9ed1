"""Security to try out: who can log in, and what they may do."""

from __future__ import annotations

from pathlib import Path

import pytest

from txnsim.security.acls import NO_ACLS, Operation, ResourceType
from txnsim.security.options import SecurityOptions, check_security
from txnsim.server._channel_builder import authorizer_of
from txnsim.server.security_demo import (
    LISTENERS,
    DemoFiles,
    demo_security,
    mechanism_of,
    tls_principal,
)

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP


@pytest.fixture
def demo(tmp_path: Path) -> tuple[SecurityOptions, DemoFiles]:
    """A demo whose first port is 9092."""
    return demo_security(tmp_path, port=9092, hosts=("localhost",), now_ms=1_700_000_000_000)


def test_it_makes_sense_and_its_files_are_there(demo: tuple[SecurityOptions, DemoFiles]) -> None:
    options, files = demo
    check_security(options)
    ports = {listener.name: listener.port for listener in options.listeners}
    assert ports == {name: 9092 + distance for name, distance in LISTENERS.items()}
    assert files.keystore.read_bytes() == files.key.read_bytes() + files.certificate.read_bytes()
    assert files.authority.exists()


def test_free_ports_are_free_everywhere(tmp_path: Path) -> None:
    options, _ = demo_security(tmp_path, port=0, hosts=("localhost",), now_ms=1_700_000_000_000)
    assert {listener.port for listener in options.listeners} == {0}


@pytest.mark.parametrize(
    ("principal", "operation", "kind", "name", "expected"),
    [
        ("User:admin", Operation.ALTER, ResourceType.CLUSTER, "kafka-cluster", True),
        ("User:scram-user", Operation.WRITE, TOPIC, "orders", True),
        ("User:scram-user", Operation.ALTER, ResourceType.CLUSTER, "kafka-cluster", False),
        (tls_principal(), Operation.READ, GROUP, "g", True),
        ("User:guest", Operation.READ, TOPIC, "public-news", True),
        ("User:guest", Operation.WRITE, TOPIC, "public-news", False),
        ("User:guest", Operation.READ, TOPIC, "orders", False),
        ("User:ANONYMOUS", Operation.DESCRIBE, TOPIC, "public-news", False),
    ],
)
def test_users_have_rights_and_guests_few(
    demo: tuple[SecurityOptions, DemoFiles],
    principal: str,
    operation: Operation,
    kind: ResourceType,
    name: str,
    *,
    expected: bool,
) -> None:
    options, _ = demo
    authorizer = authorizer_of(options)
    assert authorizer is not None
    allowed = authorizer.allows(
        NO_ACLS.plus(options.acls),
        principal=principal,
        host="127.0.0.1",
        operation=operation,
        resource_type=kind,
        name=name,
    )
    assert allowed is expected


def test_everybody_has_a_way_to_log_in() -> None:
    assert mechanism_of("tls-user") is None
    assert mechanism_of("guest") == "SCRAM-SHA-256"
    assert mechanism_of("oauth-user") == "OAUTHBEARER"
