"""Listeners of a real Kafka that ask for credentials. Standard library only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from tests.support.apache_kafka import ApacheKafka, ApacheKafkaError, Listeners

_MODULES: Final = "org.apache.kafka.common.security"
_SCRAM: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")


def plain_users(passwords: Mapping[str, str]) -> Listeners:
    """A listener ``SASL`` in clear for these users of PLAIN."""
    return Listeners(
        {"SASL": "SASL_PLAINTEXT"},
        {
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl.plain.sasl.jaas.config": _plain(passwords),
        },
    )


def logins(directory: Path, passwords: Mapping[str, str]) -> Listeners:
    """A listener ``SASL`` in clear and one ``SASL_SSL``, for PLAIN and SCRAM, with an authorizer.

    Args:
        directory: With the broker's certificate and its authority's (``Authority``).
        passwords: By user; each logs in by every mechanism. ``admin`` and who comes through the
            plain listener may everything.
    """
    return Listeners(
        {"SASL": "SASL_PLAINTEXT", "SASL_SSL": "SASL_SSL"},
        {
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            **{
                f"listener.name.{listener}.{user_name}": password
                for listener in ("sasl", "sasl_ssl")
                for user_name, password in _passwords(passwords).items()
            },
            **_with_rights(directory),
        },
        _scram_users(passwords),
    )


def demo(directory: Path, passwords: Mapping[str, str]) -> Listeners:
    """Those of ``serve --security demo`` whose names are ``SASL_SSL`` and ``SSL``.

    Args:
        directory: Where the demo has left its certificates.
        passwords: By user; each has them for PLAIN and SCRAM. What users may, ``grant`` says, but
            ``admin`` and who comes through the plain listener may everything.
    """
    bearer = f"{_MODULES}.oauthbearer.OAuthBearerLoginModule"
    prefix = "listener.name.sasl_ssl."
    return Listeners(
        {"SASL_SSL": "SASL_SSL", "SSL": "SSL"},
        {
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
            **{
                prefix + user_name: password
                for user_name, password in _passwords(passwords).items()
            },
            f"{prefix}oauthbearer.sasl.jaas.config": f"{bearer} required "
            'unsecuredLoginStringClaim_sub="none";',
            **_with_rights(directory),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(directory / "ca.pem"),
            "listener.name.ssl.ssl.client.auth": "required",
        },
        _scram_users(passwords),
    )


def _passwords(passwords: Mapping[str, str]) -> dict[str, str]:
    """Settings of a listener at which these users log in by PLAIN and SCRAM."""
    scram = f"{_MODULES}.scram.ScramLoginModule required;"
    return {
        "plain.sasl.jaas.config": _plain(passwords),
        **{f"{mechanism.lower()}.sasl.jaas.config": scram for mechanism in _SCRAM},
    }


def _with_rights(directory: Path) -> dict[str, str]:
    """Settings for TLS with the certificate in this directory, and for an authorizer."""
    keystore_file = directory / "broker.keystore.pem"
    keystore_file.write_bytes(
        (directory / "broker.key").read_bytes() + (directory / "broker.pem").read_bytes()
    )
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(keystore_file),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin;User:ANONYMOUS",
    }


def _scram_users(passwords: Mapping[str, str]) -> tuple[str, ...]:
    """Options of the storage tool that create SCRAM users."""
    return tuple(
        option
        for user_name, password in passwords.items()
        for mechanism in _SCRAM
        for option in ("--add-scram", f"{mechanism}=[name={user_name},password={password}]")
    )


def grant(kafka: ApacheKafka, principals: Iterable[str]) -> None:
    """Allow principals every operation on topics, groups and transactional ids.

    Raises:
        ApacheKafkaError: Kafka refused.
    """
    principal_options = [
        option for principal in principals for option in ("--allow-principal", principal)
    ]
    all_rights = ("--operation", "All", "--topic", "*", "--group", "*", "--transactional-id", "*")
    needed = [
        option
        for name in ("Create", "Describe", "IdempotentWrite")
        for option in ("--operation", name)
    ]
    for rights in (all_rights, (*needed, "--cluster")):
        result = kafka.run_tool(
            "org.apache.kafka.tools.AclCommand", "--add", *principal_options, *rights
        )
        if result.code != 0:
            raise ApacheKafkaError(f"rights were not granted:\n{result.stdout}{result.stderr}")


def _plain(passwords: Mapping[str, str]) -> str:
    users = "".join(f' user_{user_name}="{password}"' for user_name, password in passwords.items())
    return f"{_MODULES}.plain.PlainLoginModule required{users};"
