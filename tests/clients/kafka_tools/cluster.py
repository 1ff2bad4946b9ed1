"""The tools that are about the cluster: features, quorum, brokers, subscriptions, tokens."""

from __future__ import annotations

import re
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

_SUPPORTED_VERSIONS: Final = {
    "Produce(0)": "0 to 13",
    "Fetch(1)": "4 to 18",
    "ListOffsets(2)": "1 to 11",
    "InitProducerId(22)": "0 to 5",
    "AddPartitionsToTxn(24)": "0 to 5",
    "AddOffsetsToTxn(25)": "0 to 4",
    "EndTxn(26)": "0 to 5",
    "WriteTxnMarkers(27)": "1 to 2",
    "TxnOffsetCommit(28)": "0 to 6",
    "DescribeProducers(61)": "0",
    "DescribeTransactions(65)": "0",
    "ListTransactions(66)": "0 to 2",
    "ConsumerGroupHeartbeat(68)": "0 to 1",
}
"""What transactions need, in Kafka 4.4's versions."""
_QUORUM_COLUMNS: Final = (
    "NodeId DirectoryId LogEndOffset Lag LastFetchTimestamp LastCaughtUpTimestamp Status"
)


def features(shop: Shop) -> None:
    """kafka-features: levels are described, and changes only tried, as others share the cluster."""
    tool = "kafka-features"
    description = shop.tools.ask(tool, "describe")
    transaction_version = shop.transaction_version
    supported = {
        "eligible.leader.replicas.version": ("0", "1", "<n>"),
        "group.version": ("0", "1", "1"),
        "kraft.version": ("0", "1", "<n>"),
        "metadata.version": ("3.3-IV3", "4.4-IV2", "4.4-IV2"),
        "share.version": ("0", "2", "<n>"),
        "streams.version": ("0", "1", "<n>"),
        "transaction.version": ("0", "2", str(transaction_version)),
    }
    expect_output(
        description,
        "\n".join(
            f"Feature: {name} SupportedMinVersion: {lowest} SupportedMaxVersion: {highest}"
            f" FinalizedVersionLevel: {finalized} Epoch: <n>"
            for name, (lowest, highest, finalized) in supported.items()
        ),
    )
    downgrade_options = ("downgrade", "--dry-run", "--feature", "transaction.version=0")
    message = "transaction.version can be downgraded to 0."
    expect_output(shop.tools.ask(tool, *downgrade_options), message)
    levels_after = shop.tools.ask(tool, "describe")
    expect("levels afterwards", _levels(levels_after.stdout), _levels(description.stdout))
    expect_refusal(
        shop.tools.ask(tool, "upgrade", "--feature", "transaction.version=9"),
        "Could not upgrade transaction.version to 9. The update failed for all features since the"
        " following feature had an error: Invalid update version 9 for feature"
        " transaction.version. Local controller <n> only supports versions 0-2",
    )
    expect_refusal(
        shop.tools.ask(tool, "upgrade", "--feature", "nothing.version=1"),
        "Invalid update version 1 for feature nothing.version."
        " Local controller <n> does not support this feature.",
    )


def _levels(description: str) -> list[str]:
    """The lines of features without their epoch, which is the metadata log's offset."""
    return [line.partition("Epoch:")[0] for line in description.splitlines()]


def quorum(shop: Shop) -> None:
    """kafka-metadata-quorum: who leads the metadata log, and who follows it how closely."""
    tool = "kafka-metadata-quorum"
    expect_output(
        shop.tools.ask(tool, "describe", "--status"),
        """
        ClusterId: <word>
        LeaderId: 1
        LeaderEpoch: <n>
        HighWatermark: <n>
        MaxFollowerLag: <n>
        MaxFollowerLagTimeMs: <n>
        CurrentVoters: [{"id": 1, "endpoints": ["CONTROLLER://127.0.0.1:<n>"]}]
        CurrentObservers: [<any>]
        """,
    )
    replicas = shop.tools.ask(tool, "describe", "--replication").stdout.splitlines()
    expect("columns", lean(replicas[0]), _QUORUM_COLUMNS)
    leader = replicas[1].split()
    expect("leader", (leader[0], leader[3], leader[-1]), ("1", "0", "Leader"))
    require("others observe", all(row.split()[-1] == "Observer" for row in replicas[2:]))
    readable = shop.tools.ask(tool, "describe", "--replication", "--human-readable")
    require("tells ages", re.search(r"\d+ ms ago", readable.stdout))


def endpoints(shop: Shop) -> None:
    """kafka-cluster: id, endpoints, and a broker that is not there can't be unregistered."""
    bootstrap = ("--bootstrap-server", shop.tools.bootstrap)
    expect_output(shop.tools.run("kafka-cluster", "cluster-id", *bootstrap), "Cluster ID: <word>")
    printed_lines = shop.tools.run(
        "kafka-cluster", "list-endpoints", *bootstrap
    ).stdout.splitlines()
    expect(
        "columns",
        printed_lines[0].split(),
        ["ID", "HOST", "PORT", "RACK", "STATE", "ENDPOINT_TYPE"],
    )
    addresses = {f"{row.split()[1]}:{row.split()[2]}" for row in printed_lines[1:]}
    expect("endpoints", addresses, set(shop.tools.bootstrap.split(",")))
    require(
        "all are brokers",
        all(row.split()[4:] == ["unfenced", "broker"] for row in printed_lines[1:]),
    )
    expect_refusal(
        shop.tools.run("kafka-cluster", "unregister", *bootstrap, "--id", "99"),
        "BrokerIdNotRegisteredException: Broker ID 99 is not currently registered",
    )


def api_versions(shop: Shop) -> None:
    """kafka-broker-api-versions: each broker, and versions as Kafka 4.4 has them."""
    printed_lines = shop.tools.ask("kafka-broker-api-versions").stdout.splitlines()
    head_lines = [
        printed_line for printed_line in printed_lines if not printed_line.startswith(("\t", ")"))
    ]
    addresses = {re.sub(r" \(id: .*", "", head_text) for head_text in head_lines}
    expect("brokers", addresses, set(shop.tools.bootstrap.split(",")))
    for api, version_text in _SUPPORTED_VERSIONS.items():
        lines = [
            printed_line for printed_line in printed_lines if printed_line.startswith(f"\t{api}: ")
        ]
        expect(f"brokers that tell of {api}", len(lines), len(head_lines))
        for line in lines:
            expect(api, re.sub(r" \[.*", "", line.partition(": ")[2]), version_text)


def client_metrics(shop: Shop) -> None:
    """kafka-client-metrics: a subscription is made, told, listed and deleted (KIP-714)."""
    tool, name = "kafka-client-metrics", shop.unique_name("metrics")
    options = ("--metrics", "org.apache.kafka.producer.", "--interval", "600000")
    alteration = shop.tools.ask(
        tool, "--alter", "--name", name, *options, "--match", "client_id=nobody.*"
    )
    expect_output(alteration, f"Altered client metrics config for {name}.")
    eventually(
        lambda: expect_output(
            shop.tools.ask(tool, "--describe", "--name", name),
            f"""
            Client metrics configs for {name} are:
              interval.ms=600000
              match=client_id=nobody.*
              metrics=org.apache.kafka.producer.
            """,
        )
    )
    require("is listed", name in shop.tools.ask(tool, "--list").stdout.split())
    deletion = shop.tools.ask(tool, "--delete", "--name", name)
    expect_output(deletion, f"Deleted client metrics config for {name}.")
    absence = f"The client metric resource {name} doesn't exist and doesn't have dynamic config."
    eventually(lambda: expect_output(shop.tools.ask(tool, "--describe", "--name", name), absence))


def delegation_tokens(shop: Shop) -> None:
    """kafka-delegation-tokens: refused for a client that is not logged in."""
    no_login = ("--command-config", shop.file("nothing.properties", ""))
    for action in (("--create", "--max-life-time-period", "-1"), ("--describe",)):
        expect_refusal(
            shop.tools.ask("kafka-delegation-tokens", *action, *no_login),
            "UnsupportedByAuthenticationException: Delegation Token requests are not allowed on"
            " PLAINTEXT/1-way SSL channels and on delegation token authenticated channels.",
        )
