"""Options of ``txnsim stream`` and of the source ``kafka_lso_lag``, without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from txnsim.client.connection import ClientSettings
from txnsim.client.inspection.hanging import MAX_TRANSACTION_TIMEOUT_MS
from txnsim.config.client_settings import settings_of_options
from txnsim.errors import BadInputError
from txnsim.shell_text import ShellText
from txnsim.txn.open_txn_verdict import PROGRAM

BATCH_INTERVAL_MS: Final = 1_000
PROBE_INTERVAL_MS: Final = 10_000


class StreamOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a stream from topics to a sink."""

    client: Mapping[str, str]
    """Kafka's own properties, with ``bootstrap.servers``: for Spark's connector, for the probe and
    for the writer of alerts.
    """
    topics: tuple[str, ...]
    sink: str
    checkpoint: str
    sink_format: str = "parquet"
    """``parquet`` or ``delta``."""
    starting: str = "earliest"
    """Where a topic is read from: ``earliest``, ``latest``, or JSON as the connector takes it."""
    max_offsets: int | None = None
    """Maximum number of offsets in a batch (maxOffsetsPerTrigger)."""
    interval_ms: int = BATCH_INTERVAL_MS
    """Time between two batches of records."""
    probe_interval_ms: int = PROBE_INTERVAL_MS
    older_than_ms: int = MAX_TRANSACTION_TIMEOUT_MS
    """Transactions without a write for longer are judged (KIP-664)."""
    once: bool = False
    """Process the available data with one probe, then stop."""
    alerts_topic: str | None = None
    """Topic that alerts are sent to as well; None for none."""
    program: ShellText = PROGRAM
    """Command line of the repair tool, for the commands in alerts."""

    @property
    def kafka_options(self) -> dict[str, str]:
        """Kafka's own properties, with the prefix that Spark's connector and the probe expect."""
        return {
            f"{CLIENT_PREFIX}{option_name}": option_text
            for option_name, option_text in self.client.items()
        }

    @property
    def lag_options(self) -> dict[str, str]:
        """Options for the source ``kafka_lso_lag``."""
        return {
            **self.kafka_options,
            "subscribe": ",".join(self.topics),
            "olderThanMs": str(self.older_than_ms),
            "intervalMs": "0",  # the trigger is the clock
        }


FORMAT: Final = "kafka_lso_lag"
CLIENT_PREFIX: Final = "kafka."
"""Prefix of options that are properties of Kafka's clients, as with Spark's connector."""
LAG_PROBE_INTERVAL_MS: Final = 10_000
PROBE_CLIENT_DEFAULTS: Final = ClientSettings(client_id="txnsim-lag-probe", api_timeout_ms=15_000)
"""Client settings of a probe. A probe that is still running when the next one is due is reported,
not waited for.
"""
_OWN_OPTIONS: Final = {
    "subscribe": "topics, separated by commas; all but Kafka's own unless given",
    "olderThanMs": "transactions without a write for longer are judged",
    "intervalMs": "between two probes, at least",
}
"""Name -> description of each option; names may be in upper or lower case, as with Spark's
options.
"""


class LagOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What is probed, and how: the options of the data source ``kafka_lso_lag``. They have the
    names of the options of Spark's Kafka connector, so that both can get the same options.
    """

    bootstrap: str
    settings: ClientSettings
    topics: tuple[str, ...] | None = None
    """None means all topics except Kafka's internal ones."""
    older_than_ms: int = MAX_TRANSACTION_TIMEOUT_MS
    interval_ms: int = LAG_PROBE_INTERVAL_MS

    @classmethod
    def of(cls, options: Mapping[str, str]) -> LagOptions:
        """Parse the options that a user has given.

        Raises:
            BadInputError: An option is missing, unknown or wrong.
        """
        options_by_lower_name = {
            option_name.lower(): option_value for option_name, option_value in options.items()
        }
        kafka_properties = {
            option_name.removeprefix(CLIENT_PREFIX): options_by_lower_name.pop(option_name)
            for option_name in sorted(options_by_lower_name)
            if option_name.startswith(CLIENT_PREFIX)
        }
        own_names = {option_name.lower(): option_name for option_name in _OWN_OPTIONS}
        for option_name in options_by_lower_name:
            if option_name not in own_names:
                raise BadInputError(
                    f"{FORMAT}: option {option_name!r} is not known; there are"
                    f" {', '.join(_OWN_OPTIONS)} and {CLIENT_PREFIX}*"
                )
        topics = tuple(
            filter(None, map(str.strip, options_by_lower_name.get("subscribe", "").split(",")))
        )
        client_options = settings_of_options(
            kafka_properties, defaults=PROBE_CLIENT_DEFAULTS, option_flag=f"{FORMAT}: kafka."
        )
        if client_options.bootstrap is None:
            raise BadInputError(f"{FORMAT}: option kafka.bootstrap.servers is missing")
        return cls(
            bootstrap=client_options.bootstrap,
            settings=client_options.settings,
            topics=topics or None,
            older_than_ms=_number_option(
                options_by_lower_name, "olderThanMs", MAX_TRANSACTION_TIMEOUT_MS
            ),
            interval_ms=_number_option(options_by_lower_name, "intervalMs", LAG_PROBE_INTERVAL_MS),
        )


def _number_option(
    options_by_lower_name: Mapping[str, str], option_name: str, default_number: int
) -> int:
    option_text = options_by_lower_name.get(option_name.lower())
    if option_text is None:
        return default_number
    if not (option_text.isascii() and option_text.isdigit()):
        raise BadInputError(
            f"{FORMAT}: {option_name} is {option_text!r}, milliseconds are expected"
        )
    return int(option_text)
