"""What ``serve`` says of its settings; the rest is read by tests that start it (``test_serve``)."""

from __future__ import annotations

from txnsim.cli.serve_announce import changed_defaults
from txnsim.settings import DEFAULTS, Settings


def test_the_banner_names_each_changed_default_with_kafkas_own() -> None:
    assert changed_defaults(DEFAULTS) == ["every setting has Apache Kafka's default"]
    (line,) = changed_defaults(DEFAULTS, is_secured=True)
    assert line == "every other setting has Apache Kafka's default"
    (line,) = changed_defaults(Settings(transactional_id_expiration_ms=5))
    assert line.startswith("transactional.id.expiration.ms=5 (Apache Kafka: 604800000; ")
    (line,) = changed_defaults(Settings(log_roll_ms=5))
    assert line.startswith("log.roll.ms=5 (Apache Kafka: unset; ")
