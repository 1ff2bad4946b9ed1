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
_JAAS_PACKAGE: Final = "org.apache.kafka.common.security."


def write_properties(
    directory: Path, files: DemoFiles, server_by_listener: Mapping[str, str]
) -> tuple[Path, ...]:
    """Write a property file per user, for Java clients and Kafka's tools (``--command-config``).

    Raises:
        ConfigError: A file can't be written.
    """
    file_texts = {}
    for user_name in USERS:
        properties = java_properties(user_name, files, server_by_listener).items()
        file_texts[f"{user_name}.properties"] = "".join(
            f"{key}={value}\n" for key, value in properties
        )
    return write_all(
        directory, {user_name: file_text.encode() for user_name, file_text in file_texts.items()}
    )


def java_properties(
    user_name: str, files: DemoFiles, server_by_listener: Mapping[str, str]
) -> dict[str, str]:
    """The properties that a Java client needs to log in as a user."""
    mechanism = mechanism_of(user_name)
    listener = "SSL" if mechanism is None else "SASL_SSL"
    properties = {
        "bootstrap.servers": server_by_listener[listener],
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
        "sasl.jaas.config": _login_module(user_name, mechanism),
    }


def _login_module(user_name: str, mechanism: str) -> str:
    if mechanism == sasl.OAUTHBEARER:
        return (
            f"{_JAAS_PACKAGE}oauthbearer.OAuthBearerLoginModule required "
            f'unsecuredLoginStringClaim_sub="{user_name}";'
        )
    module_class = "plain.PlainLoginModule" if mechanism == sasl.PLAIN else "scram.ScramLoginModule"
    password = password_of(user_name)
    return f'{_JAAS_PACKAGE}{module_class} required username="{user_name}" password="{password}";'


def client_settings(
    server_by_listener: Mapping[str, str], files: DemoFiles
) -> dict[str, list[str]]:
    """The settings that each client library needs to log in as ``scram-user``, as lines to
    paste.
    """
    user_name, bootstrap_servers = SCRAM_USER, server_by_listener["SASL_SSL"]
    password, authority_path = password_of(user_name), str(files.authority)
    python_settings = [
        f"bootstrap_servers={bootstrap_servers!r}, security_protocol='SASL_SSL',",
        f"sasl_mechanism='SCRAM-SHA-256', sasl_plain_username={user_name!r},",
        f"sasl_plain_password={password!r},",
    ]
    quoted_brokers = ", ".join(json.dumps(address) for address in bootstrap_servers.split(","))
    return {
        "Java's tools": [
            f"--bootstrap-server {bootstrap_servers}",
            f"--command-config {files.authority.parent / (user_name + '.properties')}",
        ],
        "librdkafka": [
            f"bootstrap.servers={bootstrap_servers}",
            "security.protocol=SASL_SSL sasl.mechanism=SCRAM-SHA-256",
            f"sasl.username={user_name} sasl.password={password}",
            f"ssl.ca.location={authority_path}",
        ],
        "kafka-python": [*python_settings, f"ssl_cafile={authority_path!r}"],
        "aiokafka": [
            *python_settings,
            f"ssl_context=ssl.create_default_context(cafile={authority_path!r})",
        ],
        "franz-go": [
            f"pem, _ := os.ReadFile({json.dumps(authority_path)})",
            "pool := x509.NewCertPool()",
            "pool.AppendCertsFromPEM(pem)",
            f"client, err := kgo.NewClient(kgo.SeedBrokers({quoted_brokers}),",
            f"kgo.SASL(scram.Auth{{User: {json.dumps(user_name)}, Pass: {json.dumps(password)}}}"
            ".AsSha256Mechanism()),",
            "kgo.DialTLSConfig(&tls.Config{RootCAs: pool}))",
        ],
        "KafkaJS": [
            f"new Kafka({{brokers: [{quoted_brokers}],",
            f"sasl: {{mechanism: 'scram-sha-256', username: {json.dumps(user_name)}, "
            f"password: {json.dumps(password)}}},",
            f"ssl: {{ca: [fs.readFileSync({json.dumps(authority_path)})]}}}})",
        ],
    }


def announcement(server_by_listener: Mapping[str, str], files: DemoFiles) -> list[str]:
    lines = [
        "security demo: listener PLAINTEXT is User:ANONYMOUS, without any right; the others:",
        *(f"  {listener:<15} {server}" for listener, server in server_by_listener.items()),
        "users, each with the password NAME-secret:",
        *(f"  {user:<15} {login_method}" for user, login_method in USERS.items()),
        f"files: {files.authority.parent} (certificates; NAME.properties for Java and its tools)",
        f"settings for {SCRAM_USER}:",
    ]
    for client_name, setting_lines in client_settings(server_by_listener, files).items():
        labels = (client_name, *[""] * (len(setting_lines) - 1))
        lines += [
            f"  {label:<13} {setting_line}"
            for label, setting_line in zip(labels, setting_lines, strict=True)
        ]
    return lines
