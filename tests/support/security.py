"""Principals, ACLs, tokens and exchanges for the tests of security."""

from __future__ import annotations

import base64
import json
from typing import Any

from tests.support.broker_api import Api, read_back
from txnsim.api.authorization.gate import guard_apis
from txnsim.api.registry import SHIPPED
from txnsim.security.acls import (
    NO_ACLS,
    AclBinding,
    AclOperation,
    PatternType,
    Permission,
    ResourceType,
)
from txnsim.security.authorizer import Authorizer
from txnsim.security.scram import MECHANISM_BY_SASL_NAME, Credentials, credential_of

SALT = b"0123456789abcdef0123"


def acl(
    resource_type: ResourceType,
    name: str,
    operation: AclOperation,
    *,
    principal: str = "User:alice",
    host: str = "*",
    pattern: int = PatternType.LITERAL,
    permission: int = Permission.ALLOW,
) -> AclBinding:
    return AclBinding(
        resource_type=resource_type,
        name=name,
        pattern=pattern,
        principal=principal,
        host=host,
        operation=operation,
        permission=permission,
    )


def credentials(user_name: str = "alice", password: str = "secret") -> Credentials:
    """What the server knows of one user's password, for both mechanisms."""
    return {
        (user_name, mechanism): credential_of(password, mechanism=mechanism, salt=SALT)
        for mechanism in MECHANISM_BY_SASL_NAME.values()
    }


def unsecured_token(claims: Any, *, header: Any = None, signature: str = "") -> str:
    """An unsecured JWS (RFC 7515, appendix A.5)."""
    head_text, body = _part({"alg": "none"} if header is None else header), _part(claims)
    return f"{head_text}.{body}.{signature}"


def bearer(token: str, *, authorization_id: str = "") -> bytes:
    """The client's first message of OAUTHBEARER (RFC 7628)."""
    return f"n,{authorization_id},\x01auth=Bearer {token}\x01\x01".encode()


def _part(value: Any) -> str:
    """A part of a token: ``value`` as JSON, or given bytes, which may be malformed JSON."""
    encoded = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(encoded).rstrip(b"=").decode()


class GuardedApi:
    """The handlers of a broker behind its authorizer, with a principal."""

    def __init__(self, api: Api, **authorizer: Any) -> None:
        self.api = api
        self.principal = "User:alice"
        self.handlers = guard_apis(SHIPPED, Authorizer(**authorizer)).handlers

    def grant(self, *acls: AclBinding) -> None:
        """Add rules."""
        metadata = self.api.broker.metadata
        metadata.publish(metadata.image.with_acls(metadata.image.acls.plus(acls)))

    def revoke_all(self) -> None:
        """Remove every rule."""
        metadata = self.api.broker.metadata
        metadata.publish(metadata.image.with_acls(NO_ACLS))

    async def ask(self, name: str, version: int, **request_fields: Any) -> Any:
        """The answer that the principal gets."""
        request = self.api.request(name, version, **request_fields)
        request.principal = self.principal
        request.client_host = "/10.0.0.1"
        return read_back(request, await self.handlers[request.api_key].handle(request))
