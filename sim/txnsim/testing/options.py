"""What cluster a test wants, in keyword arguments, and the options that it comes to."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from txnsim.errors import ConfigError
from txnsim.runtime.trace import TraceLevel
from txnsim.server.options import ClusterOptions
from txnsim.settings import DEFAULTS, Settings

WHERE: Final = "txnsim"
"""What messages about settings call a test's arguments."""
Topics = Mapping[str, int] | Iterable[str]
"""Name -> partitions, or names of topics with one partition."""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster for a test."""

    brokers: int = 3
    topics: Mapping[str, int] = {}
    """Name -> partitions."""
    transaction_version: int | None = None
    """Level of the feature; the newest unless given."""
    settings: Mapping[str, Any] = {}
    """By Kafka's names or ours."""
    as_version: tuple[str, ...] = ()
    """Releases of Kafka to behave as (``ClusterOptions.as_version``)."""
    rules: Mapping[str, bool] = {}
    """Switches of ``releases.Rules`` turned by hand: a bug of before its fix."""
    port: int = 0
    """First of consecutive ports; 0 picks free ones."""
    trace: str = TraceLevel.BRIEF.value
    """``off``, ``brief`` or ``full``."""
    seed: int | None = None
    """Of all chance; a random one unless given."""

    @property
    def trace_level(self) -> TraceLevel:
        """How much is recorded.

        Raises:
            ConfigError: ``trace`` is no level.
        """
        try:
            return TraceLevel(self.trace)
        except ValueError:
            levels = ", ".join(level.value for level in TraceLevel)
            raise ConfigError(f"{WHERE}: trace {self.trace!r}: expected one of {levels}") from None

    def options(self) -> ClusterOptions:
        """The options of such a cluster; what has no effect is warned about.

        Raises:
            ConfigError: A setting is unknown or wrong.
        """
        return ClusterOptions(
            brokers=self.brokers,
            port=self.port,
            topics=tuple(self.topics.items()),
            settings=self._settings(),
            as_version=self.as_version,
            rules=self.rules,
        )

    def _settings(self) -> Settings:
        given = dict(self.settings)
        if self.transaction_version is not None:
            given["transaction_version"] = self.transaction_version
        if not given:
            return DEFAULTS
        from txnsim.config import settings_of  # pydantic, only for who changes something

        settings, without_effect = settings_of(given, where=WHERE)
        for remark in without_effect:
            warnings.warn(remark, stacklevel=2)
        return settings


FIELDS: Final = Wanted.__struct_fields__
"""What a test may say of its cluster."""


def wanted(
    *,
    topics: Topics = (),
    as_version: str | Sequence[str] = (),
    **given: Any,
) -> Wanted:
    """A cluster, as people write it down.

    Args:
        topics: Name -> partitions, or names.
        as_version: One release, or several entries of ``ClusterOptions.as_version``.
        given: The other fields of ``Wanted``.

    Raises:
        ConfigError: There is no such field, or its value is of the wrong kind.
    """
    unknown = sorted(given.keys() - set(FIELDS))
    if unknown:
        raise ConfigError(f"{WHERE}: no {', '.join(unknown)}; there are {', '.join(FIELDS)}")
    fields = {
        **given,
        "topics": dict(topics if isinstance(topics, Mapping) else dict.fromkeys(topics, 1)),
        "as_version": (as_version,) if isinstance(as_version, str) else tuple(as_version),
    }
    try:
        return msgspec.convert(fields, Wanted)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{WHERE}: {error}") from error
