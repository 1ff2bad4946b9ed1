"""The JSON Schema of a scenario file, for editors. It is generated from the models that read the
file, so both know the same fields. The schema can't express everything: only ``scenario_reader``
and ``consistency`` check that a step does exactly one thing, and that two places of a file fit
together. The schema accepts every valid file, except for field names in their other spelling
(``transactional_id``), which can be read nevertheless.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from txnsim.faults.rule import FaultRule
from txnsim.text import with_clean_descriptions
from txnsim_lab.scenario._notation.blocks import (
    ANY_ORDER_KEY,
    ONLY_KEY,
    REPEAT_KEY,
    STEP_LISTS,
    STEPS_KEY,
)
from txnsim_lab.scenario.fields import FAULT_RULE_TITLE
from txnsim_lab.scenario.model import MODES, Scenario

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def scenario_schema() -> dict[str, Any]:
    """The JSON Schema of a scenario file."""
    schema = Scenario.model_json_schema(by_alias=True)
    rule_schema = fault_schema()
    definitions = {**schema["$defs"], **rule_schema["$defs"]}
    # A scenario's rule holds unless it says otherwise: there the action may be left out.
    story_rule_schema = dict(definitions["FaultRule"])
    story_rule_schema["required"] = [
        field_name for field_name in story_rule_schema["required"] if field_name != "action"
    ]
    definitions["FaultRuleOfStory"] = story_rule_schema
    _point_to(definitions, "FaultRuleOfStory")
    definitions["Topic"] = {"anyOf": [{"type": "integer", "minimum": 1}, definitions["Topic"]]}
    definitions["Run"]["properties"]["mode"]["examples"] = list(MODES)
    definitions["Block"] = _block_schema()
    step = {"anyOf": [{"$ref": "#/$defs/Block"}, {"$ref": "#/$defs/Step"}]}
    for steps_key in STEP_LISTS:
        schema["properties"][steps_key]["items"] = step
    for former_name, field_name in Scenario.former_names.items():
        schema["properties"][former_name] = {**schema["properties"][field_name], "deprecated": True}
    return {"$schema": DIALECT, **schema, "title": "txnsim scenario", "$defs": definitions}


def _block_schema() -> dict[str, Any]:
    """The schema of a block of steps, which is expanded before the models read the file."""
    step_or_block = {"anyOf": [{"$ref": "#/$defs/Block"}, {"$ref": "#/$defs/Step"}]}
    step_list = {"type": "array", "minItems": 1, "items": step_or_block}
    return {
        "title": "Block",
        "description": "Steps that are repeated ({n} is the number of the turn, from 1 on), are "
        "restricted together, or come in an order that the seed draws.",
        "type": "object",
        "properties": {
            REPEAT_KEY: {"type": "integer", "minimum": 1},
            ONLY_KEY: {"$ref": "#/$defs/Step/properties/only"},
            STEPS_KEY: step_list,
            ANY_ORDER_KEY: step_list,
        },
        "oneOf": [{"required": [STEPS_KEY]}, {"required": [ANY_ORDER_KEY]}],
        "additionalProperties": False,
    }


def fault_schema() -> dict[str, Any]:
    """The JSON Schema of a fault rule, in JSON or YAML."""
    (schema,), definitions = msgspec.json.schema_components(
        [FaultRule], ref_template="#/$defs/{name}"
    )
    rule_schema = {**schema, "$defs": dict(definitions)}
    return {
        "$schema": DIALECT,
        "title": "txnsim fault rule",
        **with_clean_descriptions(rule_schema),
    }


def _point_to(schema_node: Any, definition_name: str) -> None:
    """Replace each placeholder of a fault rule by a reference to its schema, in place."""
    if isinstance(schema_node, dict):
        if schema_node.get("title") == FAULT_RULE_TITLE and "properties" not in schema_node:
            schema_node.clear()
            schema_node["$ref"] = f"#/$defs/{definition_name}"
        for child_node in schema_node.values():
            _point_to(child_node, definition_name)
    elif isinstance(schema_node, list):
        for child_node in schema_node:
            _point_to(child_node, definition_name)
