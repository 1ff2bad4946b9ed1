"""The tools through listeners with TLS: ``--command-config`` for each login, ACLs, SCRAM."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.clients.kafka_tools.expect import eventually, expect, lean, printed, refused, require
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
    """Transactions, and what they left, through each mechanism; a wrong password is refused."""
    for mechanism, user in _USERS.items():
        config = _config(shop, user, mechanism)
        _transact(shop, _SASL, config, f"sasl-{mechanism.lower()}")
        if mechanism == "OAUTHBEARER":
            continue  # no password to be wrong
        text = Path(config).read_text().replace(f"{user}-secret", "wrong")
        wrong = shop.file(f"wrong-{mechanism}.properties", text)
        refused(_run(shop, _SASL, wrong, "kafka-topics", "--list"), "Authentication failed")
    _scram_credentials(shop)


def tls(shop: Shop) -> None:
    """The same with a client certificate."""
    config = _demo_file(shop, "tls-user.properties")
    _transact(shop, _TLS, config, "tls")


def acls(shop: Shop) -> None:
    """kafka-acls: add, list, remove, literal and by prefix."""
    admin, topic = _demo_file(shop, "admin.properties"), shop.named("acl")
    resource = ("--topic", topic, "--resource-pattern-type", "prefixed")
    rule = ("--allow-principal", "User:somebody", "--operation", "Read", *resource)
    pattern = f"`ResourcePattern(resourceType=TOPIC, name={topic}, patternType=PREFIXED)`"
    entry = "(principal=User:somebody, host=*, operation=READ, permissionType=ALLOW)"
    added = _run(shop, _SASL, admin, "kafka-acls", "--add", *rule)
    expect("exit status", added.code, 0)
    told = lean(added.stdout)  # and what is there now, if the broker has heard of it already
    require(
        f"tells what is added: {told}",
        told.startswith(f"Adding ACLs for resource {pattern}:\n{entry}"),
    )
    listed = f"Current ACLs for resource {pattern}:\n{entry}"
    look = ("kafka-acls", "--list", *resource)
    eventually(lambda: printed(_run(shop, _SASL, admin, *look), listed))
    removed = _run(shop, _SASL, admin, "kafka-acls", "--remove", "--force", *rule)
    expect("exit status", removed.code, 0)
    eventually(lambda: printed(_run(shop, _SASL, admin, *look), ""))


def _scram_credentials(shop: Shop) -> None:
    """A user made by kafka-configs can log in, and cannot any more once it is deleted."""
    admin, user = _demo_file(shop, "admin.properties"), shop.named("scram")
    entity = ("--alter", "--entity-type", "users", "--entity-name", user)
    done = f"Completed updating config for user {user}."
    add = ("--add-config", f"SCRAM-SHA-512=[password={user}-secret]")
    printed(_run(shop, _SASL, admin, "kafka-configs", *entity, *add), done)
    text = Path(_config(shop, "scram-user", "SCRAM-SHA-512")).read_text()
    config = shop.file("new-user.properties", text.replace("scram-user", user))
    look = ("kafka-broker-api-versions",)
    eventually(lambda: expect("may log in", _run(shop, _SASL, config, *look).code, 0))
    delete = ("--delete-config", "SCRAM-SHA-512")
    printed(_run(shop, _SASL, admin, "kafka-configs", *entity, *delete), done)
    eventually(lambda: refused(_run(shop, _SASL, config, *look), "SaslAuthenticationException"))


def _transact(shop: Shop, listener: str, config: str, stem: str) -> None:
    topic, transactional_id = shop.named(stem), shop.named(stem)
    admin = _demo_file(shop, "admin.properties")
    create = ("--create", "--topic", topic, "--partitions", "1")
    printed(_run(shop, _SASL, admin, "kafka-topics", *create), f"Created topic {topic}.")
    measured = _run(
        shop,
        listener,
        config,
        "kafka-producer-perf-test",
        *("--topic", topic, "--num-records", "20", "--record-size", "10", "--throughput", "-1"),
        *("--transactional-id", transactional_id, "--transaction-duration-ms", "5"),
    )
    printed(measured, "20 records sent<any>")
    read = _run(
        shop,
        listener,
        config,
        "kafka-console-consumer",
        *("--topic", topic, "--from-beginning", "--isolation-level", "read_committed"),
        *("--max-messages", "20", "--timeout-ms", "30000", "--group", shop.named(stem)),
    )
    expect("records", (read.code, len(read.stdout.splitlines())), (0, 20))
    described = _run(
        shop,
        listener,
        config,
        "kafka-transactions",
        *("describe", "--transactional-id", transactional_id),
    )
    require("it is described", transactional_id in described.stdout)


def _run(shop: Shop, listener: str, config: str, tool: str, *args: str) -> ToolResult:
    bootstrap = ("--bootstrap-server", shop.environment[listener])
    given = ("--command-config", config)
    if tool == "kafka-transactions":  # options of the tool stand in front of the sub-command
        return shop.tools.run(tool, *bootstrap, *given, *args)
    return shop.tools.run(tool, *args, *bootstrap, *given)


def _config(shop: Shop, user: str, mechanism: str) -> str:
    """The demo's properties of the user, with this mechanism."""
    text = Path(_demo_file(shop, f"{user}.properties")).read_text()
    known = next(line for line in text.splitlines() if line.startswith("sasl.mechanism="))
    return shop.file(
        f"{user}-{mechanism}.properties", text.replace(known, f"sasl.mechanism={mechanism}")
    )


def _demo_file(shop: Shop, name: str) -> str:
    return str(Path(shop.environment["TXNSIM_SECURITY_DIR"]) / name)
