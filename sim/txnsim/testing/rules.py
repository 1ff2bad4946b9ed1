"""A fault rule in each of its forms: a ``FaultRule``, YAML text, keyword arguments.

All of them are read by the same struct, so that all of them refuse the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from txnsim.faults.plan import FaultRule
from txnsim.mistakes import converted

HERE: Final = "rule"
"""What messages call a text."""


def fault_rule(
    given: FaultRule | Mapping[str, Any] | str | None, fields: Mapping[str, Any], *, default_id: str
) -> FaultRule:
    """The rule of the arguments.

    Args:
        given: A rule, its fields, or its YAML text.
        fields: Fields on top. ``action`` and ``then`` may be the mere name of an action without
            particulars.
        default_id: Its id where none is given.

    Raises:
        WrongValueError: It is no rule; one line for each field that is wrong.
        ConfigError: The text is no YAML.
    """
    if isinstance(given, FaultRule):
        return converted({**msgspec.to_builtins(given), **_spelled_out(fields)}, FaultRule)
    if isinstance(given, str):
        from txnsim.config.yaml_lines import read_mapping  # YAML, only where a text is read

        given, _lines = read_mapping(given.encode(), file=HERE)
    return converted(
        {"id": default_id, **_spelled_out(given or {}), **_spelled_out(fields)}, FaultRule
    )


def _spelled_out(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword arguments as a file has them: no None for options that are not given, an action as
    its name.
    """
    found = {name: value for name, value in fields.items() if value is not None}
    for name in found.keys() & {"action", "then"}:
        action = found[name]
        if isinstance(action, str):
            found[name] = {"do": action}
        elif isinstance(action, msgspec.Struct):
            found[name] = msgspec.to_builtins(action)
    return found
