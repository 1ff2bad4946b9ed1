"""Security to try out: a user for each way to log in, one with all rights and one with few.

``txnsim serve --security demo`` starts this; from Python it is the ``security`` of
``ClusterOptions``. The passwords are no secret: nothing of it is meant to protect anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from txnsim.files import FOR_ITS_OWNER, write_whole
from txnsim.security import sasl
from txnsim.security.acls import (
    CLUSTER_NAME,
    WILDCARD,
    AclBinding,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from txnsim.security.options import (
    ClientAuth,
    SecureListener,
    SecurityOptions,
    SecurityProtocol,
    TlsFiles,
)
from txnsim.security.principals import user
from txnsim.server._certificates import ORGANIZATION, Authority

LISTENERS: Final = {"SASL_PLAINTEXT": 200, "SASL_SSL": 300, "SSL": 400}
"""Name (and protocol) of a listener -> how far its first port is from the cluster's."""
ADMIN: Final = "admin"
PLAIN_USER: Final = "plain-user"
SCRAM_USER: Final = "scram-user"
BEARER: Final = "oauth-user"
TLS_USER: Final = "tls-user"
GUEST: Final = "guest"
GUESTS_PREFIX: Final = "public"
"""What a guest may read begins so: topics and groups."""


class DemoFiles(msgspec.Struct, frozen=True, kw_only=True):
    """Where the files for clients lie."""

    authority: Path
    """Whom to trust."""
    certificate: Path
    """Of ``tls-user``."""
    key: Path
    keystore: Path
    """Key and certificate in one, as Java wants them."""


def password_of(name: str) -> str:
    """Everybody's password."""
    return f"{name}-secret"


def demo_security(
    directory: Path, *, port: int, hosts: Sequence[str], now_ms: int
) -> tuple[SecurityOptions, DemoFiles]:
    """Make certificates, users and rights.

    Returns:
        The options, and what clients need.

    Raises:
        MissingExtraError: the extra ``security`` is not installed.
        ConfigError: A file can't be written.
    """
    authority = Authority(directory, now_ms=now_ms)
    broker = authority.issue("broker", hosts=hosts)
    client = authority.issue(TLS_USER)
    keystore = directory / f"{TLS_USER}.keystore.pem"
    both = client.key.read_bytes() + client.certificate.read_bytes()
    write_whole(keystore, both, mode=FOR_ITS_OWNER)
    passwords = {name: password_of(name) for name in (ADMIN, GUEST)}
    options = SecurityOptions(
        listeners=tuple(
            SecureListener(
                name=name,
                protocol=SecurityProtocol[name],
                port=port and port + distance,
                client_auth=ClientAuth.REQUIRED if name == "SSL" else ClientAuth.NONE,
            )
            for name, distance in LISTENERS.items()
        ),
        tls=TlsFiles(
            certificate=str(broker.certificate),
            key=str(broker.key),
            authority=str(authority.certificate),
        ),
        plain_users={**passwords, PLAIN_USER: password_of(PLAIN_USER)},
        scram_users={**passwords, SCRAM_USER: password_of(SCRAM_USER)},
        has_authorizer=True,
        super_users=frozenset({user(ADMIN)}),
        acls=(*_rights_of_users(), *_rights_of_guests()),
    )
    files = DemoFiles(
        authority=authority.certificate,
        certificate=client.certificate,
        key=client.key,
        keystore=keystore,
    )
    return options, files


def mechanism_of(name: str) -> str | None:
    """How a user of the demo logs in; None by certificate."""
    ways = {PLAIN_USER: sasl.PLAIN, BEARER: sasl.OAUTHBEARER, TLS_USER: None}
    return ways.get(name, "SCRAM-SHA-256")


def tls_principal() -> str:
    """Who the demo's certificate of a client is."""
    return user(f"CN={TLS_USER},O={ORGANIZATION}")


def _rights_of_users() -> list[AclBinding]:
    """Everything with topics, groups and transactional ids; of the cluster what producers and
    tools need.
    """
    everyday = (
        (ResourceType.TOPIC, WILDCARD, Operation.ALL),
        (ResourceType.GROUP, WILDCARD, Operation.ALL),
        (ResourceType.TRANSACTIONAL_ID, WILDCARD, Operation.ALL),
        (ResourceType.CLUSTER, CLUSTER_NAME, Operation.CREATE),
        (ResourceType.CLUSTER, CLUSTER_NAME, Operation.DESCRIBE),
        (ResourceType.CLUSTER, CLUSTER_NAME, Operation.IDEMPOTENT_WRITE),
    )
    who = (user(PLAIN_USER), user(SCRAM_USER), user(BEARER), tls_principal())
    return [
        _allowed(one, kind, name, operation) for one in who for kind, name, operation in everyday
    ]


def _rights_of_guests() -> list[AclBinding]:
    return [
        _allowed(user(GUEST), kind, GUESTS_PREFIX, Operation.READ, pattern=PatternType.PREFIXED)
        for kind in (ResourceType.TOPIC, ResourceType.GROUP)
    ]


def _allowed(
    principal: str,
    kind: ResourceType,
    name: str,
    operation: Operation,
    *,
    pattern: PatternType = PatternType.LITERAL,
) -> AclBinding:
    return AclBinding(
        resource_type=kind,
        name=name,
        pattern=pattern,
        principal=principal,
        host=WILDCARD,
        operation=operation,
        permission=Permission.ALLOW,
    )
