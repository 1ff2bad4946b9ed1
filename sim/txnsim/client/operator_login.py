"""How an operator's client, such as the control port's, logs in to brokers that require
authentication.

Users of the control port may do everything with the cluster. So the port logs in at the brokers as
a super user, with the password from the security settings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from txnsim.client.authentication import ClientSecurity
from txnsim.security.login import Password
from txnsim.security.options import ClientTls, SecureListener, SecurityOptions, TlsFiles
from txnsim.security.principals import ANONYMOUS, user
from txnsim.security.sasl import PLAIN
from txnsim.security.scram import MECHANISM_BY_SASL_NAME


def operator_login(security: SecurityOptions) -> tuple[str, ClientSecurity] | None:
    """The name of a listener, and how to log in there; None if the plaintext listener suffices, or
    if no super user's password is known.

    Raises:
        OSError: The certificate of the authority can't be read.
    """
    may_everybody_act = not security.has_authorizer or ANONYMOUS in security.super_users
    if security.has_plain_listener and may_everybody_act:
        return None
    for listener in sorted(security.listeners, key=lambda listener: listener.protocol.has_tls):
        trust_root = _authority(security, listener)
        if not listener.protocol.has_sasl or (listener.protocol.has_tls and trust_root is None):
            continue
        for mechanism, user_name, password in _passwords(security, listener):
            if not security.has_authorizer or user(user_name) in security.super_users:
                return listener.name, ClientSecurity(
                    protocol=listener.protocol,
                    tls=ClientTls(authority=trust_root, checks_host=False),
                    mechanism=mechanism,
                    credential=Password(user=user_name, password=password),
                )
    return None


def _authority(security: SecurityOptions, listener: SecureListener) -> str | None:
    """The authority to trust: the one that signs client certificates, which usually signs brokers'
    too.
    """
    tls = listener.tls or security.tls
    if tls is None or tls.authority is None:
        return None
    return Path(tls.authority).read_text("utf-8") if isinstance(tls, TlsFiles) else tls.authority


def _passwords(
    security: SecurityOptions, listener: SecureListener
) -> Iterator[tuple[str, str, str]]:
    """(mechanism, user, password), first those of PLAIN, because SCRAM passwords may have been
    changed.
    """
    users_by_mechanism: dict[str, Mapping[str, str]] = {
        PLAIN: security.plain_users if listener.plain_users is None else listener.plain_users
    }
    for mechanism in MECHANISM_BY_SASL_NAME:
        users_by_mechanism[mechanism] = {
            **security.scram_users,
            **security.scram_users_by_mechanism.get(mechanism, {}),
        }
    for mechanism, password_by_user in users_by_mechanism.items():
        if mechanism in listener.mechanisms:
            yield from (
                (mechanism, user_name, password)
                for user_name, password in sorted(password_by_user.items())
            )
