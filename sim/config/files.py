"""A file's entries, judged and turned into a ``Configuration``.

Both kinds of file end in the same two models, so that a value has the same bounds wherever it is
written. All problems of a file are told at once, each as ``file:line: field: what is wrong``.
"""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from sim.config.kafka_names import KNOWN, LISTENER_PROPERTIES, why_without_effect
from sim.config.properties import Property, parse_properties
from sim.errors import ConfigError
from sim.settings import DEFAULTS, Settings, documentation

if TYPE_CHECKING:
    from pydantic import ValidationError

    from sim.server.cluster import ClusterOptions


_Lines = dict[tuple[str, ...], int]
"""Path of keys -> line."""


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """What a file asks for. None: it does not say."""

    settings: Settings = DEFAULTS
    brokers: int | None = None
    host: str | None = None
    port: int | None = None
    advertised_host: str | None = None
    http_port: int | None = None
    as_version: str | None = None
    topics: tuple[tuple[str, int], ...] = ()
    """(name, partitions), in the order of the file."""
    warnings: tuple[str, ...] = ()
    """What was accepted and changes nothing, for people."""

    def onto(self, options: ClusterOptions) -> ClusterOptions:
        """Options of a cluster with what the file says in their place."""
        said = {
            "brokers": self.brokers,
            "host": self.host,
            "port": self.port,
            "advertised_host": self.advertised_host,
            "as_version": None if self.as_version is None else (self.as_version,),
        }
        return msgspec.structs.replace(
            options,
            settings=self.settings,
            topics=(*options.topics, *self.topics),
            **{name: value for name, value in said.items() if value is not None},
        )


class _Problems:
    """What is wrong with one file, collected so that one run shows all of it."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._found: list[tuple[int, str]] = []

    def add(self, line: int, field: str, message: str) -> None:
        self._found.append((line, f"{self._file}:{line}: {field}: {message}"))

    def add_validation(self, error: ValidationError, lines: _Lines) -> None:
        for detail in error.errors(include_url=False):
            path = tuple(str(part) for part in detail["loc"] if str(part) != "[key]")
            field = ".".join(path)
            self.add(lines[path], field, f"{detail['msg']}, not {detail['input']!r}")

    def add_settings(self, error: ValidationError, given: dict[str, Property]) -> None:
        """The same for the settings, which people may have given under Kafka's names."""
        for detail in error.errors(include_url=False):
            entry = given[str(detail["loc"][0])]
            self.add(entry.line, entry.name, f"{detail['msg']}, not {detail['input']!r}")

    def raise_if_any(self) -> None:
        if self._found:
            raise self.error()

    def error(self) -> ConfigError:
        return ConfigError("\n".join(message for _line, message in sorted(set(self._found))))


def load(path: Path) -> Configuration:
    """Read a configuration file.

    Args:
        path: Our YAML (``.yaml``, ``.yml``) or a broker's ``server.properties``.

    Returns:
        What the file asks for, and warnings about entries without effect.

    Raises:
        ConfigError: The file can't be read, or has unknown or wrong entries; the message has one
            line for each, with file, line and field.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: can't be read: {error.strerror}") from None
    match path.suffix.lower():
        case ".yaml" | ".yml":
            return _from_yaml(data, file=str(path))
        case ".properties":
            return _from_properties(parse_properties(data, file=str(path)), file=str(path))
        case suffix:
            raise ConfigError(
                f"{path}: expected .yaml, .yml or .properties, found {suffix or 'no suffix'}"
            )


def _from_yaml(data: bytes, *, file: str) -> Configuration:
    from pydantic import ValidationError

    from sim.config.model import ClusterFile, settings_model
    from sim.config.yaml_lines import read_mapping

    content, lines = read_mapping(data, file=file)
    problems = _Problems(file)
    try:
        cluster = ClusterFile.model_validate(content)
    except ValidationError as error:
        problems.add_validation(error, lines)
        raise problems.error() from None
    settings: dict[str, object] = {}
    origins: dict[str, Property] = {}
    warned: list[Property] = []
    for given, value in cluster.settings.items():
        line = lines["settings", given]
        name = _our_name(given)
        if name is None and why_without_effect(given) is not None:
            warned.append(Property(line=line, name=given, value=str(value)))
        elif name is None:
            problems.add(line, f"settings.{given}", _unknown(given, ours=True))
        elif name in settings:
            problems.add(line, f"settings.{given}", "given twice, under our name and under Kafka's")
        else:
            settings[name] = value
            origins[name] = Property(line=line, name=f"settings.{given}", value=str(value))
    try:
        settings_model().model_validate(settings)
    except ValidationError as error:
        problems.add_settings(error, origins)
    problems.raise_if_any()
    return Configuration(
        settings=msgspec.convert(settings, Settings),
        brokers=cluster.brokers,
        host=cluster.host,
        port=cluster.port,
        advertised_host=cluster.advertised_host,
        http_port=cluster.http,
        as_version=cluster.as_version,
        topics=tuple(cluster.topics.items()),
        warnings=_warnings(warned, file=file),
    )


def _from_properties(entries: list[Property], *, file: str) -> Configuration:
    from pydantic import ValidationError

    from sim.config.listeners import read_listeners
    from sim.config.model import settings_model

    problems = _Problems(file)
    last = {entry.name: entry for entry in entries}  # java.util.Properties: the last one wins
    settings: dict[str, object] = {}
    origins: dict[str, Property] = {}
    for entry in last.values():
        name = _our_name(entry.name) if entry.name in KNOWN else None
        if name is not None:
            try:
                settings[name] = _typed(name, entry.value)
            except ValueError as error:
                problems.add(entry.line, entry.name, str(error))
            origins[name] = entry
        elif entry.name not in KNOWN:
            problems.add(entry.line, entry.name, _unknown(entry.name, ours=False))
    try:
        settings_model().model_validate(settings)
    except ValidationError as error:
        problems.add_settings(error, origins)
    where, refused, odd = read_listeners(
        {name: last[name] for name in sorted(LISTENER_PROPERTIES & last.keys())}
    )
    for entry, message in refused:
        problems.add(entry.line, entry.name, message)
    problems.raise_if_any()
    repeated = [entry for entry in entries if last[entry.name] is not entry]
    return Configuration(
        settings=msgspec.convert(settings, Settings),
        host=where.host,
        port=where.port,
        advertised_host=where.advertised_host,
        warnings=(
            *(f"{file}:{e.line}: {e.name}: repeated further down, which wins" for e in repeated),
            *(f"{file}:{e.line}: {e.name}: {message}" for e, message in odd),
            *_warnings([e for e in last.values() if why_without_effect(e.name)], file=file),
        ),
    )


def _our_name(given: str) -> str | None:
    """The field of ``Settings`` that goes by this name, ours or Kafka's."""
    known = documentation()
    if given in known:
        return given
    return next((name for name, setting in known.items() if setting.kafka == given), None)


def _typed(name: str, text: str) -> int | bool | str:
    """The value of a property, as ConfigDef.parseType reads it."""
    kind = type(getattr(DEFAULTS, name))
    text = text.strip()
    if kind is bool:
        if text.lower() not in ("true", "false"):
            raise ValueError(f"expected true or false, found {text!r}")
        return text.lower() == "true"
    if kind is int:
        try:
            return int(text)
        except ValueError:
            raise ValueError(f"expected a whole number, found {text!r}") from None
    return text


def _unknown(given: str, *, ours: bool) -> str:
    names = [*KNOWN, *documentation()] if ours else [*KNOWN]
    similar = get_close_matches(given, sorted(names), n=1, cutoff=0.85)
    hint = f"; did you mean {similar[0]}?" if similar else ""
    return f"no such setting here, nor property of a Kafka 4.3 broker{hint}"


def _warnings(entries: list[Property], *, file: str) -> tuple[str, ...]:
    """One line for each reason."""
    by_reason: dict[str, list[str]] = {}
    for entry in entries:
        reason = why_without_effect(entry.name)
        assert reason is not None, "only entries without effect are warned about"
        by_reason.setdefault(reason, []).append(entry.name)
    return tuple(
        f"{file}: without effect, because {reason}: {', '.join(names)}"
        for reason, names in by_reason.items()
    )
