"""Principals, ACLs, tokens and exchanges for the tests of security."""

from __future__ import annotations

import base64
import json
from typing import Any

from sim.security.acls import AclBinding, Operation, PatternType, Permission, ResourceType
from sim.security.scram import BY_SASL_NAME, Credentials, credential_of

SALT = b"0123456789abcdef0123"


def acl(
    resource_type: ResourceType,
    name: str,
    operation: Operation,
    *,
    principal: str = "User:alice",
    host: str = "*",
    pattern: int = PatternType.LITERAL,
    permission: int = Permission.ALLOW,
) -> AclBinding:
    """One rule."""
    return AclBinding(
        resource_type=resource_type,
        name=name,
        pattern=pattern,
        principal=principal,
        host=host,
        operation=operation,
        permission=permission,
    )


def credentials(user: str = "alice", password: str = "secret") -> Credentials:
    """What the server knows of one user's password, for both mechanisms."""
    return {
        (user, mechanism): credential_of(password, mechanism=mechanism, salt=SALT)
        for mechanism in BY_SASL_NAME.values()
    }


def unsecured_token(claims: Any, *, header: Any = None, signature: str = "") -> str:
    """An unsecured JWS (RFC 7515, appendix A.5)."""
    head, body = _part({"alg": "none"} if header is None else header), _part(claims)
    return f"{head}.{body}.{signature}"


def bearer(token: str, *, authorization_id: str = "") -> bytes:
    """The client's first message of OAUTHBEARER (RFC 7628)."""
    return f"n,{authorization_id},\x01auth=Bearer {token}\x01\x01".encode()


def _part(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()
