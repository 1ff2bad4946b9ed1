"""How an operator's client logs in where brokers ask who it is, as that of the control port.

Who may ask the control port may do everything to the cluster. So what it asks over the wire is
asked as a super user whose password is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from txnsim.client.authentication import ClientSecurity
from txnsim.security.login import Password
from txnsim.security.options import ClientTls, SecureListener, SecurityOptions, TlsFiles
from txnsim.security.principals import ANONYMOUS, user
from txnsim.security.sasl import PLAIN
from txnsim.security.scram import BY_SASL_NAME


def operator_login(security: SecurityOptions) -> tuple[str, ClientSecurity] | None:
    """The name of a listener, and how to reach it; None where the listener in clear does, or where
    no password of a super user is known.

    Raises:
        OSError: The certificate of the authority can't be read.
    """
    everybody_may = not security.has_authorizer or ANONYMOUS in security.super_users
    if security.has_plain_listener and everybody_may:
        return None
    for listener in sorted(security.listeners, key=lambda listener: listener.protocol.has_tls):
        authority = _authority(security, listener)
        if not listener.protocol.has_sasl or (listener.protocol.has_tls and authority is None):
            continue
        for mechanism, name, password in _passwords(security, listener):
            if not security.has_authorizer or user(name) in security.super_users:
                return listener.name, ClientSecurity(
                    protocol=listener.protocol,
                    tls=ClientTls(authority=authority, checks_host=False),
                    mechanism=mechanism,
                    credential=Password(user=name, password=password),
                )
    return None


def _authority(security: SecurityOptions, listener: SecureListener) -> str | None:
    """Whom to trust: the authority that signs certificates of clients, as a rule brokers' too."""
    tls = listener.tls or security.tls
    if tls is None or tls.authority is None:
        return None
    return Path(tls.authority).read_text("utf-8") if isinstance(tls, TlsFiles) else tls.authority


def _passwords(
    security: SecurityOptions, listener: SecureListener
) -> Iterator[tuple[str, str, str]]:
    """Mechanism, user and password, of PLAIN first: those of SCRAM may have been changed."""
    users_by_mechanism: dict[str, Mapping[str, str]] = {
        PLAIN: security.plain_users if listener.plain_users is None else listener.plain_users
    }
    for mechanism in BY_SASL_NAME:
        users_by_mechanism[mechanism] = {
            **security.scram_users,
            **security.scram_users_of.get(mechanism, {}),
        }
    for mechanism, users in users_by_mechanism.items():
        if mechanism in listener.mechanisms:
            yield from ((mechanism, name, password) for name, password in sorted(users.items()))
