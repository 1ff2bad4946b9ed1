"""How the control port's own client logs in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from txnsim.client.operator_login import operator_login
from txnsim.runtime.wall_clock import wall_ms
from txnsim.security.login import Password
from txnsim.security.options import NO_SECURITY, SecureListener, SecurityOptions, SecurityProtocol
from txnsim.server.security_demo import demo_security

TLS_LISTENER = SecureListener(name="SASL_SSL", protocol=SecurityProtocol.SASL_SSL)


@pytest.fixture
def demo(tmp_path: Path) -> SecurityOptions:
    hosts = ("localhost", "127.0.0.1")
    return demo_security(tmp_path, port=0, hosts=hosts, now_ms=wall_ms())[0]


def with_changes(**changes: object) -> Callable[[SecurityOptions], SecurityOptions]:
    return lambda options: msgspec.structs.replace(options, **changes)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (with_changes(), ("SASL_PLAINTEXT", "PLAIN", "admin")),
        (with_changes(plain_users={}), ("SASL_PLAINTEXT", "SCRAM-SHA-256", "admin")),
        (with_changes(super_users=frozenset({"User:scram-user"})),
         ("SASL_PLAINTEXT", "SCRAM-SHA-256", "scram-user")),
        (with_changes(super_users=frozenset({"User:oauth-user"})), None),
        (with_changes(super_users=frozenset({"User:ANONYMOUS"})), None),
        (with_changes(has_authorizer=False), None),
        (with_changes(has_authorizer=False, has_plain_listener=False),
         ("SASL_PLAINTEXT", "PLAIN", "admin")),
        (with_changes(listeners=(TLS_LISTENER,)), ("SASL_SSL", "PLAIN", "admin")),
        (with_changes(listeners=(TLS_LISTENER,), tls=None), None),
    ],
)  # fmt: skip
def test_a_super_user_whose_password_is_known_asks(
    demo: SecurityOptions,
    change: Callable[[SecurityOptions], SecurityOptions],
    expected: tuple[str, str, str] | None,
) -> None:
    login = operator_login(change(demo))
    if expected is None:
        assert login is None
        return
    assert login is not None
    listener, security = login
    assert isinstance(security.credential, Password)
    assert (listener, security.mechanism, security.credential.user) == expected
    assert security.protocol.name == listener


def test_without_security_nobody_logs_in() -> None:
    assert operator_login(NO_SECURITY) is None
