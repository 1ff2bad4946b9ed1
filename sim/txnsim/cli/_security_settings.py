"""The client settings that ``txnsim serve --security demo`` prints for each library, and the
property files that it writes for Java's tools.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from txnsim.files import write_all
from txnsim.on_demand_imports import OnDemand
from txnsim.security import sasl
from txnsim.server.security_demo import (
    ADMIN,
    BEARER,
    GUEST,
    GUESTS_PREFIX,
    PLAIN_USER,
    SCRAM_USER,
    TLS_USER,
    DemoFiles,
    mechanism_of,
    password_of,
)

if TYPE_CHECKING:
    import json
else:
    json = OnDemand("json")

USERS: Final = {
    ADMIN: "super user; SCRAM or PLAIN",
    SCRAM_USER: "SCRAM-SHA-256 or SCRAM-SHA-512",
    PLAIN_USER: "PLAIN",
    BEARER: "OAUTHBEARER, an unsecured token",
    TLS_USER: "certificate, at the listener SSL",
    GUEST: f"SCRAM or PLAIN; may only read topics and groups that begin with {GUESTS_PREFIX!r}",
}
_JAAS: Final = "org.apache.kafka.common.security."


def write_properties(
    directory: Path, files: DemoFiles, servers: Mapping[str, str]
) -> tuple[Path, ...]:
    """Write a property file per user, for Java clients and Kafka's tools (``--command-config``).

    Raises:
        ConfigError: A file can't be written.
    """
    file_texts = {}
    for name in USERS:
        properties = java_properties(name, files, servers).items()
        file_texts[f"{name}.properties"] = "".join(f"{key}={value}\n" for key, value in properties)
    return write_all(directory, {name: text.encode() for name, text in file_texts.items()})


def java_properties(name: str, files: DemoFiles, servers: Mapping[str, str]) -> dict[str, str]:
    """The properties that a Java client needs to log in as a user."""
    mechanism = mechanism_of(name)
    listener = "SSL" if mechanism is None else "SASL_SSL"
    properties = {
        "bootstrap.servers": servers[listener],
        "security.protocol": listener,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(files.authority),
    }
    if mechanism is None:
        return {
            **properties,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(files.keystore),
        }
    return {
        **properties,
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": _login_module(name, mechanism),
    }


def _login_module(name: str, mechanism: str) -> str:
    if mechanism == sasl.OAUTHBEARER:
        return (
            f"{_JAAS}oauthbearer.OAuthBearerLoginModule required "
            f'unsecuredLoginStringClaim_sub="{name}";'
        )
    module = "plain.PlainLoginModule" if mechanism == sasl.PLAIN else "scram.ScramLoginModule"
    return f'{_JAAS}{module} required username="{name}" password="{password_of(name)}";'


def client_settings(servers: Mapping[str, str], files: DemoFiles) -> dict[str, list[str]]:
    """The settings that each client library needs to log in as ``scram-user``, as lines to
    paste.
    """
    name, where = SCRAM_USER, servers["SASL_SSL"]
    password, authority = password_of(name), str(files.authority)
    python = [
        f"bootstrap_servers={where!r}, security_protocol='SASL_SSL',",
        f"sasl_mechanism='SCRAM-SHA-256', sasl_plain_username={name!r},",
        f"sasl_plain_password={password!r},",
    ]
    brokers = ", ".join(json.dumps(address) for address in where.split(","))
    return {
        "Java's tools": [
            f"--bootstrap-server {where}",
            f"--command-config {files.authority.parent / (name + '.properties')}",
        ],
        "librdkafka": [
            f"bootstrap.servers={where}",
            "security.protocol=SASL_SSL sasl.mechanism=SCRAM-SHA-256",
            f"sasl.username={name} sasl.password={password}",
            f"ssl.ca.location={authority}",
        ],
        "kafka-python": [*python, f"ssl_cafile={authority!r}"],
        "aiokafka": [
            *python,
            f"ssl_context=ssl.create_default_context(cafile={authority!r})",
        ],
        "franz-go": [
            f"pem, _ := os.ReadFile({json.dumps(authority)})",
            "pool := x509.NewCertPool()",
            "pool.AppendCertsFromPEM(pem)",
            f"client, err := kgo.NewClient(kgo.SeedBrokers({brokers}),",
            f"kgo.SASL(scram.Auth{{User: {json.dumps(name)}, Pass: {json.dumps(password)}}}"
            ".AsSha256Mechanism()),",
            "kgo.DialTLSConfig(&tls.Config{RootCAs: pool}))",
        ],
        "KafkaJS": [
            f"new Kafka({{brokers: [{brokers}],",
            f"sasl: {{mechanism: 'scram-sha-256', username: {json.dumps(name)}, "
            f"password: {json.dumps(password)}}},",
            f"ssl: {{ca: [fs.readFileSync({json.dumps(authority)})]}}}})",
        ],
    }


def announcement(servers: Mapping[str, str], files: DemoFiles) -> list[str]:
    lines = [
        "security demo: listener PLAINTEXT is User:ANONYMOUS, without any right; the others:",
        *(f"  {listener:<15} {server}" for listener, server in servers.items()),
        "users, each with the password NAME-secret:",
        *(f"  {user:<15} {how}" for user, how in USERS.items()),
        f"files: {files.authority.parent} (certificates; NAME.properties for Java and its tools)",
        f"settings for {SCRAM_USER}:",
    ]
    for client, settings in client_settings(servers, files).items():
        labels = (client, *[""] * (len(settings) - 1))
        lines += [f"  {label:<13} {line}" for label, line in zip(labels, settings, strict=True)]
    return lines
