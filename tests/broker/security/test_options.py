"""What a cluster's security is made of has to make sense."""

from __future__ import annotations

import msgspec
import pytest

from tests.support.security import acl
from txnsim.errors import ConfigError
from txnsim.security.acls import Operation, ResourceType
from txnsim.security.options import (
    NO_SECURITY,
    ClientAuth,
    SecureListener,
    SecurityOptions,
    SecurityProtocol,
    TlsFiles,
    TlsPem,
    check_security,
)

SASL = SecureListener(name="SASL", protocol=SecurityProtocol.SASL_PLAINTEXT)
TLS = SecureListener(name="TLS", protocol=SecurityProtocol.SSL)
FILES = TlsFiles(certificate="c", key="k")
MUTUAL = msgspec.structs.replace(TLS, client_auth=ClientAuth.REQUIRED)


@pytest.mark.parametrize(
    ("protocol", "tls", "sasl"),
    [
        (SecurityProtocol.PLAINTEXT, False, False),
        (SecurityProtocol.SSL, True, False),
        (SecurityProtocol.SASL_PLAINTEXT, False, True),
        (SecurityProtocol.SASL_SSL, True, True),
    ],
)
def test_a_protocol_is_encrypted_or_authenticated_or_both(
    protocol: SecurityProtocol, *, tls: bool, sasl: bool
) -> None:
    assert (protocol.has_tls, protocol.has_sasl) == (tls, sasl)


def test_what_makes_sense_is_taken() -> None:
    check_security(NO_SECURITY)
    whole = msgspec.structs.replace(FILES, authority="a")
    check_security(SecurityOptions(listeners=(SASL, MUTUAL), tls=whole))
    own = msgspec.structs.replace(MUTUAL, tls=TlsPem(certificate="c", key="k", authority="a"))
    check_security(SecurityOptions(listeners=(own,), has_plain_listener=False))
    check_security(
        SecurityOptions(
            acls=(acl(ResourceType.TOPIC, "orders", Operation.READ),), listeners=(SASL,)
        )
    )


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (SecurityOptions(listeners=(SASL, SASL)), "two listeners named SASL"),
        (SecurityOptions(listeners=(TLS,)), "SSL needs TLS files"),
        (
            SecurityOptions(listeners=(msgspec.structs.replace(SASL, mechanisms=("GSSAPI",)),)),
            "no such SASL mechanism: GSSAPI",
        ),
        (SecurityOptions(listeners=(MUTUAL,), tls=FILES), "need an authority"),
        (SecurityOptions(has_plain_listener=False), "there is no listener"),
        (SecurityOptions(principal_mapping_rules="x"), "mapping.rules: 'x' is no rule"),
        (
            SecurityOptions(
                listeners=(msgspec.structs.replace(SASL, principal_mapping_rules="x"),)
            ),
            "mapping.rules: 'x' is no rule",
        ),
        (
            SecurityOptions(acls=(acl(ResourceType.TOPIC, "", Operation.READ),)),
            "Invalid empty resource name",
        ),
    ],
)
def test_what_does_not_is_refused(options: SecurityOptions, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        check_security(options)
