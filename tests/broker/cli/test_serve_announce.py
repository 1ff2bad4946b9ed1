"""What ``serve`` says of its settings; the rest is read by tests that start it (``test_serve``)."""

from __future__ import annotations

from txnsim.cli._serve_announce import changed_defaults
from txnsim.settings import DEFAULTS, Settings


def test_the_banner_names_each_changed_default_with_kafkas_own() -> None:
    assert changed_defaults(DEFAULTS) == ["every setting has Apache Kafka's default"]
    (line,) = changed_defaults(DEFAULTS, is_secured=True)
    assert line == "every other setting has Apache Kafka's default"
    (line,) = changed_defaults(Settings(transactional_id_expiration_ms=5))
    assert line.startswith("transactional.id.expiration.ms=5 (Apache Kafka: 604800000; ")
    (line,) = changed_defaults(Settings(log_roll_ms=5))
    assert line.startswith("log.roll.ms=5 (Apache Kafka: unset; ")


def test_the_banner_says_what_becomes_of_coordinators_replicas() -> None:
    assert changed_defaults(DEFAULTS, brokers=3) == changed_defaults(DEFAULTS)
    assert changed_defaults(DEFAULTS, brokers=1) == [
        "transaction.state.log.replication.factor=1, transaction.state.log.min.isr=1, "
        "offsets.topic.replication.factor=1: not set, so no more than there are brokers "
        "(Apache Kafka waits for 3, 2, 3)",
        "every other setting has Apache Kafka's default",
    ]
    two, offsets = changed_defaults(Settings(offsets_topic_replication_factor=1), brokers=2)
    assert two.startswith("transaction.state.log.replication.factor=2: not set")
    assert offsets == (
        "offsets.topic.replication.factor=1 (Apache Kafka: 3; of __consumer_offsets)"
    )


def test_the_banner_says_that_what_is_set_leaves_clients_without_a_coordinator() -> None:
    settings = Settings(transaction_state_log_replication_factor=3, transaction_state_log_min_isr=2)
    lines = changed_defaults(settings, brokers=1)
    assert lines[0] == (
        "transaction.state.log.replication.factor=3 is set, and there is 1 broker: as of a real "
        "broker, clients get COORDINATOR_NOT_AVAILABLE"
    )
    assert lines[1].startswith("offsets.topic.replication.factor=1: not set")


def test_values_are_spelled_as_in_a_brokers_file() -> None:
    (line,) = changed_defaults(Settings(auto_create_topics_enable=False))
    assert line.startswith("auto.create.topics.enable=false (Apache Kafka: true; ")
