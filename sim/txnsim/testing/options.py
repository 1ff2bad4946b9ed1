"""The options of a test's cluster as keyword arguments, and their conversion to
``ClusterOptions``.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from txnsim.errors import ConfigError
from txnsim.runtime.trace import TraceLevel
from txnsim.server.options import ClusterOptions, check_release, topics_of
from txnsim.settings import DEFAULTS, Settings
from txnsim.value_errors import WrongValueError, convert_value

ARGUMENTS_LABEL: Final = "txnsim"
"""Name of a test's arguments in messages about settings."""
Topics = Mapping[str, int] | Iterable[str] | str
"""Name -> partitions, or ``orders`` or ``orders:3``, or several of these (``topics_of``)."""


class SimulatedClusterOptions(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True
):
    """The options of a cluster for a test."""

    brokers: int = 3
    first_broker_id: int = 1
    """Id of the first broker; the other ids follow."""
    racks: tuple[str, ...] = ()
    """The rack of each broker; empty: none has one."""
    topics: Mapping[str, int] = {}
    """Name -> number of partitions."""
    transaction_version: int | None = None
    """Level of the feature ``transaction.version``; the newest unless given."""
    virgin: bool = False
    """Whether the cluster was never used: Kafka's internal topics do not exist, and the first
    client that needs them gets COORDINATOR_LOAD_IN_PROGRESS.
    """
    settings: Mapping[str, Any] = {}
    """Settings by Kafka's names or ours."""
    as_version: tuple[str, ...] = ()
    """Kafka releases to emulate (``ClusterOptions.as_version``)."""
    rules: Mapping[str, bool] = {}
    """Switch of ``releases.Rules`` -> whether it is on, to have a bug before its fix."""
    port: int = 0
    """First of consecutive ports; 0 picks free ones."""
    trace: Literal["off", "brief", "full"] = "brief"
    seed: int | None = None
    """Seed of all random numbers; a random one unless given."""
    faults_may_miss: bool = False
    """Whether a fault that never struck is no error at the end."""

    @property
    def trace_level(self) -> TraceLevel:
        return TraceLevel(self.trace)

    def options(self) -> ClusterOptions:
        """Convert to ``ClusterOptions``; warns about settings without effect.

        Raises:
            ConfigError: A setting is unknown or wrong.
        """
        options = ClusterOptions(
            brokers=self.brokers,
            first_broker_id=self.first_broker_id,
            racks=self.racks,
            port=self.port,
            topics=tuple(self.topics.items()),
            ready_coordinators=not self.virgin,
            settings=self._settings(),
            as_version=self.as_version,
            rules=self.rules,
        )
        check_release(options, transaction_version=self.transaction_version)
        return options

    def _settings(self) -> Settings:
        settings_given = dict(self.settings)
        if self.transaction_version is not None:
            settings_given["transaction_version"] = self.transaction_version
        if not settings_given:
            return DEFAULTS
        from txnsim.config import settings_of  # pydantic, loaded only if a setting is changed

        settings, ineffective_settings = settings_of(
            settings_given, source_name=ARGUMENTS_LABEL, as_version=self.as_version
        )
        for remark in ineffective_settings:
            warnings.warn(remark, stacklevel=2)
        return settings


def options_from_keywords(
    *,
    topics: Topics = (),
    as_version: str | Sequence[str] = (),
    **other_options: Any,
) -> SimulatedClusterOptions:
    """Make the options from a user's arguments.

    Args:
        topics: Name -> partitions, or ``orders`` or ``orders:3``, or several of these.
        as_version: One release, or several entries of ``ClusterOptions.as_version``.
        other_options: The other fields of ``SimulatedClusterOptions``.

    Raises:
        ConfigError: There is no such field, or its value has a wrong type.
    """
    try:
        fields = {
            **other_options,
            "topics": topics_of(topics),
            "as_version": _release_list(as_version),
        }
        return convert_value(fields, SimulatedClusterOptions, noun="option")
    except WrongValueError as error:
        error_lines = str(error).splitlines()
        raise ConfigError(
            "\n".join(f"{ARGUMENTS_LABEL}: {error_line}" for error_line in error_lines)
        ) from None


def _release_list(as_version: str | Sequence[str]) -> Sequence[str]:
    return (as_version,) if isinstance(as_version, str) else as_version
