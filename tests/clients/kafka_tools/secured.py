"""The tools through listeners with TLS: ``--command-config`` for each login, ACLs, SCRAM."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.clients.kafka_tools.expect import (
    eventually,
    expect,
    expect_output,
    expect_refusal,
    lean,
    require,
)
from tests.clients.kafka_tools.shop import Shop
from tests.support.apache_kafka import ToolResult

_USERS: Final = {
    "SCRAM-SHA-256": "scram-user",
    "SCRAM-SHA-512": "scram-user",
    "PLAIN": "plain-user",
    "OAUTHBEARER": "oauth-user",
}
_SASL: Final = "TXNSIM_SASL_BOOTSTRAP"
_TLS: Final = "TXNSIM_TLS_BOOTSTRAP"


def sasl(shop: Shop) -> None:
    """Write and read transactions through each mechanism; a wrong password is refused."""
    for mechanism, user_name in _USERS.items():
        config = _config(shop, user_name, mechanism)
        _transact(shop, _SASL, config, f"sasl-{mechanism.lower()}")
        if mechanism == "OAUTHBEARER":
            continue  # no password to be wrong
        file_text = Path(config).read_text().replace(f"{user_name}-secret", "wrong")
        wrong_config = shop.file(f"wrong-{mechanism}.properties", file_text)
        expect_refusal(
            _run(shop, _SASL, wrong_config, "kafka-topics", "--list"), "Authentication failed"
        )
    _scram_credentials(shop)


def tls(shop: Shop) -> None:
    """Send a transaction over TLS with a client certificate, and read it."""
    config = _demo_file(shop, "tls-user.properties")
    _transact(shop, _TLS, config, "tls")


def acls(shop: Shop) -> None:
    """kafka-acls: add, list, remove, literal and by prefix."""
    admin_file, topic = _demo_file(shop, "admin.properties"), shop.unique_name("acl")
    resource = ("--topic", topic, "--resource-pattern-type", "prefixed")
    rule = ("--allow-principal", "User:somebody", "--operation", "Read", *resource)
    pattern = f"`ResourcePattern(resourceType=TOPIC, name={topic}, patternType=PREFIXED)`"
    entry_text = "(principal=User:somebody, host=*, operation=READ, permissionType=ALLOW)"
    addition = _run(shop, _SASL, admin_file, "kafka-acls", "--add", *rule)
    expect("exit status", addition.code, 0)
    message = lean(addition.stdout)  # and what is there now, if the broker has heard of it already
    require(
        f"tells what is added: {message}",
        message.startswith(f"Adding ACLs for resource {pattern}:\n{entry_text}"),
    )
    listing_text = f"Current ACLs for resource {pattern}:\n{entry_text}"
    list_command = ("kafka-acls", "--list", *resource)
    eventually(lambda: expect_output(_run(shop, _SASL, admin_file, *list_command), listing_text))
    removal = _run(shop, _SASL, admin_file, "kafka-acls", "--remove", "--force", *rule)
    expect("exit status", removal.code, 0)
    eventually(lambda: expect_output(_run(shop, _SASL, admin_file, *list_command), ""))


def _scram_credentials(shop: Shop) -> None:
    """A user made by kafka-configs can log in, and cannot any more once it is deleted."""
    admin_file, user_name = _demo_file(shop, "admin.properties"), shop.unique_name("scram")
    entity = ("--alter", "--entity-type", "users", "--entity-name", user_name)
    confirmation = f"Completed updating config for user {user_name}."
    add = ("--add-config", f"SCRAM-SHA-512=[password={user_name}-secret]")
    expect_output(_run(shop, _SASL, admin_file, "kafka-configs", *entity, *add), confirmation)
    file_text = Path(_config(shop, "scram-user", "SCRAM-SHA-512")).read_text()
    config = shop.file("new-user.properties", file_text.replace("scram-user", user_name))
    list_command = ("kafka-broker-api-versions",)
    eventually(lambda: expect("may log in", _run(shop, _SASL, config, *list_command).code, 0))
    delete = ("--delete-config", "SCRAM-SHA-512")
    expect_output(_run(shop, _SASL, admin_file, "kafka-configs", *entity, *delete), confirmation)
    eventually(
        lambda: expect_refusal(
            _run(shop, _SASL, config, *list_command), "SaslAuthenticationException"
        )
    )


def _transact(shop: Shop, listener: str, config: str, stem: str) -> None:
    topic, transactional_id = shop.unique_name(stem), shop.unique_name(stem)
    admin_file = _demo_file(shop, "admin.properties")
    create = ("--create", "--topic", topic, "--partitions", "1")
    expect_output(_run(shop, _SASL, admin_file, "kafka-topics", *create), f"Created topic {topic}.")
    perf_test = _run(
        shop,
        listener,
        config,
        "kafka-producer-perf-test",
        *("--topic", topic, "--num-records", "20", "--record-size", "10", "--throughput", "-1"),
        *("--transactional-id", transactional_id, "--transaction-duration-ms", "5"),
    )
    expect_output(perf_test, "20 records sent<any>")
    consumer_output = _run(
        shop,
        listener,
        config,
        "kafka-console-consumer",
        *("--topic", topic, "--from-beginning", "--isolation-level", "read_committed"),
        *("--max-messages", "20", "--timeout-ms", "30000", "--group", shop.unique_name(stem)),
    )
    expect("records", (consumer_output.code, len(consumer_output.stdout.splitlines())), (0, 20))
    description = _run(
        shop,
        listener,
        config,
        "kafka-transactions",
        *("describe", "--transactional-id", transactional_id),
    )
    require("it is described", transactional_id in description.stdout)


def _run(shop: Shop, listener: str, config: str, tool: str, *args: str) -> ToolResult:
    bootstrap = ("--bootstrap-server", shop.environment[listener])
    login = ("--command-config", config)
    if tool == "kafka-transactions":  # options of the tool stand in front of the sub-command
        return shop.tools.run(tool, *bootstrap, *login, *args)
    return shop.tools.run(tool, *args, *bootstrap, *login)


def _config(shop: Shop, user_name: str, mechanism: str) -> str:
    """The demo's properties of the user, with this mechanism."""
    file_text = Path(_demo_file(shop, f"{user_name}.properties")).read_text()
    mechanism_line = next(
        line for line in file_text.splitlines() if line.startswith("sasl.mechanism=")
    )
    return shop.file(
        f"{user_name}-{mechanism}.properties",
        file_text.replace(mechanism_line, f"sasl.mechanism={mechanism}"),
    )


def _demo_file(shop: Shop, file_name: str) -> str:
    return str(Path(shop.environment["TXNSIM_SECURITY_DIR"]) / file_name)
