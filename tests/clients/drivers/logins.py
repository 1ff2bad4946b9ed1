"""Who a client says it is, at the listeners of ``serve --security demo`` (docs/security.md)."""

from __future__ import annotations

import base64
import json
import logging
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

FAR_FUTURE_S: Final = 4_000_000_000
OAUTHBEARER: Final = "OAUTHBEARER"
USERS: Final = {
    "SCRAM-SHA-256": "scram-user",
    "SCRAM-SHA-512": "scram-user",
    "PLAIN": "plain-user",
    OAUTHBEARER: "oauth-user",
}
"""By mechanism of SASL."""
TLS_USER: Final = "tls-user"


class Login(NamedTuple):
    """A login at the demo's listeners: a mechanism with credentials, or a certificate."""

    directory: Path
    """Where the demo keeps its files."""
    mechanism: str | None
    """Of SASL; None by certificate."""
    user: str
    password: str

    @property
    def protocol(self) -> str:
        """The listener and its security protocol."""
        return "SSL" if self.mechanism is None else "SASL_SSL"

    @property
    def authority(self) -> str:
        """Path of the certificate authority's certificate."""
        return str(self.directory / "ca.pem")

    @property
    def certificate(self) -> str:
        """The path of the client's certificate."""
        return str(self.directory / f"{self.user}.pem")

    @property
    def key(self) -> str:
        """The path of the certificate's key."""
        return str(self.directory / f"{self.user}.key")

    def context(self) -> ssl.SSLContext:
        """The TLS context for libraries that take Python's own."""
        context = ssl.create_default_context(cafile=self.authority)
        if self.mechanism is None:
            context.load_cert_chain(self.certificate, self.key)
        return context

    def token(self) -> str:
        """A token that nobody has signed (RFC 7515, appendix A.5)."""
        claims = {"sub": self.user, "exp": FAR_FUTURE_S, "iat": 1}
        return f"{_encode_part({'alg': 'none'})}.{_encode_part(claims)}."


def by_password(directory: Path, mechanism: str, user: str | None = None) -> Login:
    """The login of one of the demo's users by password."""
    user_name = user or USERS[mechanism]
    return Login(directory, mechanism, user_name, f"{user_name}-secret")


def by_certificate(directory: Path) -> Login:
    """The login of the demo's owner of a client certificate."""
    return Login(directory, None, TLS_USER, "")


@contextmanager
def capture_log(library_name: str) -> Iterator[list[str]]:
    """The library's log lines during the block; some libraries name a refusal only there."""
    lines: list[str] = []

    class LineHandler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    logger, handler = logging.getLogger(library_name), LineHandler()
    logger.addHandler(handler)
    try:
        yield lines
    finally:
        logger.removeHandler(handler)


def _encode_part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()
