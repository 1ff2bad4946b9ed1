"""TLS contexts of listeners and clients, from PEM files or their text.

Python's ``ssl`` reads keys from files only; text lies in a private file for as long as it is read.
Kafka's counterpart: SslFactory, DefaultSslEngineFactory.
"""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from txnsim.errors import ConfigError
from txnsim.files import problem_of
from txnsim.on_demand_imports import OnDemand
from txnsim.security.options import ClientAuth, ClientTls, TlsFiles, TlsPem

if TYPE_CHECKING:
    import tempfile
else:
    tempfile = OnDemand("tempfile")

_VERIFY_MODES: Final = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.REQUESTED: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
}
_TLS_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


def server_context(tls: TlsFiles | TlsPem, client_auth: ClientAuth) -> ssl.SSLContext:
    """The TLS context of a listener.

    Raises:
        ConfigError: A file can't be read, or does not have the expected kind of content.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        if isinstance(tls, TlsFiles):
            context.load_cert_chain(tls.certificate, tls.key, _password(tls.key_password))
            if tls.authority is not None:
                context.load_verify_locations(tls.authority)
        else:
            _load_certificate_text(context, tls.certificate, tls.key, tls.key_password)
            if tls.authority is not None:
                context.load_verify_locations(cadata=tls.authority)
            _limit_versions(context, tls.versions)
    except (OSError, ssl.SSLError) as error:
        source_text = (
            f"{tls.certificate}, {tls.key}" if isinstance(tls, TlsFiles) else "of the keystore"
        )
        raise ConfigError(f"TLS files {source_text}: {problem_of(error)}") from error
    context.verify_mode = _VERIFY_MODES[client_auth]
    return context


def client_context(tls: ClientTls) -> ssl.SSLContext:
    """The TLS context of a client.

    Raises:
        ConfigError: A certificate or key is invalid, or they don't belong together.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # Java asks for the name only where an algorithm is named, and always for a known authority.
    context.check_hostname = tls.checks_host
    context.verify_mode = ssl.CERT_REQUIRED
    try:
        if tls.authority is None:
            context.load_default_certs()
        else:
            context.load_verify_locations(cadata=tls.authority)
        if tls.certificate is not None and tls.key is not None:
            _load_certificate_text(context, tls.certificate, tls.key, tls.key_password)
        _limit_versions(context, tls.versions)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"TLS certificates of the client: {problem_of(error)}") from error
    return context


def _limit_versions(context: ssl.SSLContext, versions: tuple[str, ...]) -> None:
    if versions:
        allowed_versions = sorted(_TLS_VERSIONS[version_name] for version_name in versions)
        context.minimum_version, context.maximum_version = allowed_versions[0], allowed_versions[-1]


def _load_certificate_text(
    context: ssl.SSLContext, certificate: str, key: str, password: str | None
) -> None:
    with _text_as_file(certificate) as chain_path, _text_as_file(key) as key_path:
        context.load_cert_chain(chain_path, key_path, _password(password))


def _password(password: str | None) -> str:
    """The password of a key. Never None: OpenSSL would ask for it at the terminal."""
    return password or ""


@contextlib.contextmanager
def _text_as_file(text: str) -> Iterator[str]:
    # A directory that only this user can read.
    with tempfile.TemporaryDirectory(prefix="txnsim-tls-") as directory:
        store_path = Path(directory, "store.pem")
        store_path.touch(mode=0o600)
        store_path.write_text(text)
        yield str(store_path)
