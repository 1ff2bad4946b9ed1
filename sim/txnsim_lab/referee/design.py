"""A design: a release with switches, settings of brokers and plug-ins."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from txnsim.errors import ConfigError
from txnsim.files import problem_of, read_given
from txnsim.releases import REFERENCE, RELEASES, release_named
from txnsim.releases.rules import Rules
from txnsim.text import unknown_word_message
from txnsim_lab.exploration.model import Exploration
from txnsim_lab.referee.plugin import Plugin, PluginFailures, in_place
from txnsim_lab.simulation.drawing import modes_of
from txnsim_lab.simulation.plan import Plan

if TYPE_CHECKING:
    from txnsim_lab.scenario.model import Scenario

SEPARATOR: Final = ","
PLUGIN_SUFFIX: Final = ".py"
_V2_MODES: Final = ("TV2", "TV2+")
_UNVERIFIED_MODE: Final = "V-"


class Design(msgspec.Struct, frozen=True, kw_only=True):
    """One side of a match: a release with switches, settings and plug-ins."""

    text: str
    """As the user wrote it."""
    as_version: str = REFERENCE.name
    rules: dict[str, bool] = {}
    settings: dict[str, Any] = {}
    plugins: tuple[Plugin, ...] = ()

    def replacements(self) -> dict[str, Callable[..., Any]]:
        """Name of a decision -> the function of a plug-in that decides.

        Raises:
            ConfigError: A plug-in is wrong, or two replace the same.
        """
        replacements: dict[str, Callable[..., Any]] = {}
        for plugin in self.plugins:
            for name, function in plugin.replacements().items():
                if name in replacements:
                    raise ConfigError(f"{self.text}: two plug-ins replace {name}")
                replacements[name] = function
        return replacements

    @contextmanager
    def in_place(self) -> Iterator[PluginFailures]:
        """Let the plug-ins decide; yields what keeps their failures (``plugin.in_place``)."""
        with PluginFailures() as failures, in_place(self.replacements(), failures.note):
            yield failures

    def mode_of(self, mode: str) -> str:
        """The mode of the protocol in which this release plays what another plays in ``mode``."""
        modes = modes_of(self.as_version)
        if mode == _UNVERIFIED_MODE or mode in modes:
            return mode
        return modes[-1] if mode in _V2_MODES else modes[0]

    def plan(self, plan: Plan) -> Plan:
        """The plan in a cluster of this design."""
        world = plan.world
        new_world = msgspec.structs.replace(
            world,
            mode=self.mode_of(world.mode),
            as_version=self.as_version,
            rules=dict(self.rules),
            settings={**world.settings, **self.settings},
        )
        return msgspec.structs.replace(plan, world=new_world)

    def exploration(self, exploration: Exploration) -> Exploration:
        """The exploration in a cluster of this design."""
        return msgspec.structs.replace(exploration, plan=self.plan(exploration.plan))

    def scenario(self, scenario: Scenario, run: str) -> Scenario:
        """The story, with a run in a cluster of this design."""
        declared_run = scenario.runs[run]
        changed_fields = {
            "mode": self.mode_of(declared_run.mode),
            "as_version": self.as_version,
            "rules": dict(self.rules),
            "settings": {**declared_run.settings, **self.settings},
        }
        runs = {**scenario.runs, run: declared_run.model_copy(update=changed_fields)}
        return scenario.model_copy(update={"runs": runs})


def read_design(text: str) -> Design:
    """Read the text of a design: parts with commas between them, each a release (``4.4``), a switch
    (``NAME=on``), a setting of brokers (``NAME=VALUE``) or the file of a plug-in.

    Raises:
        ConfigError: A part is none of these, or a plug-in is wrong.
    """
    as_version = REFERENCE.name
    rules: dict[str, bool] = {}
    settings: dict[str, Any] = {}
    plugins: list[Plugin] = []
    for design_part in filter(None, (design_part.strip() for design_part in text.split(SEPARATOR))):
        name, equals_sign, value = design_part.partition("=")
        if design_part.endswith(PLUGIN_SUFFIX):
            plugins.append(_read_plugin(design_part))
        elif not equals_sign:
            as_version = _release_name(design_part)
        elif "." in name:
            settings[name] = _parse_value(value)
        elif name not in Rules.documentation():
            raise ConfigError(unknown_word_message("switch", name, Rules.documentation()))
        elif value not in ("on", "off"):
            raise ConfigError(f"{design_part}: expected {name}=on or {name}=off")
        else:
            rules[name] = value == "on"
    design = Design(
        text=text, as_version=as_version, rules=rules, settings=settings, plugins=tuple(plugins)
    )
    design.replacements()  # or a plug-in is wrong
    return design


def _release_name(part: str) -> str:
    if part not in RELEASES:
        raise ConfigError(
            f"{part!r}: no part of a design: expected a release ({', '.join(RELEASES)}), a switch"
            " such as late_commit_is_fenced=off, a setting of brokers, or a plug-in's file"
        )
    return release_named(part).name


def _read_plugin(path_text: str) -> Plugin:
    try:
        return Plugin(path_text, read_given(Path(path_text)).decode())
    except OSError as error:
        raise ConfigError(f"{path_text}: can't be read: {problem_of(error)}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path_text}: not UTF-8 at byte {error.start}") from None


def _parse_value(value_text: str) -> Any:
    """Parse a number or a boolean, as in a scenario file; other text stays text."""
    try:
        return msgspec.json.decode(value_text)
    except (msgspec.DecodeError, RecursionError):
        return value_text
