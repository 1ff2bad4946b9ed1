"""The JSON Schema of a cluster's configuration file, for editors: generated from the models that
read it.

It has the settings under our names and Kafka's, and allows Kafka's other properties, which have no
effect.
"""

from __future__ import annotations

from typing import Any, Final

from txnsim.config._model import ClusterFile, settings_model
from txnsim.config.presets import PRESET, PRESETS
from txnsim.settings import documentation

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def cluster_schema() -> dict[str, Any]:
    """The JSON schema of a cluster's YAML file."""
    schema = ClusterFile.model_json_schema(by_alias=True)
    settings_section = settings_model().model_json_schema()
    settings: dict[str, Any] = dict(settings_section["properties"])
    for setting_name, setting_documentation in documentation().items():
        setting_schema = settings[setting_name]
        setting_schema["description"] = (
            f"{setting_documentation.reason} ({setting_documentation.unit})"
            if setting_documentation.unit
            else setting_documentation.reason
        )
        if setting_documentation.kafka is not None:
            settings[setting_documentation.kafka] = setting_schema
    definitions = {**schema.get("$defs", {}), **settings_section.get("$defs", {})}
    properties = dict(schema["properties"])
    settings[PRESET] = {
        "enum": list(PRESETS),
        "description": "settings that go together, which are not Apache Kafka's defaults",
    }
    properties["settings"] = {"type": "object", "properties": settings}
    return {
        "$schema": DIALECT,
        **schema,
        "title": "txnsim cluster",
        "properties": properties,
        "$defs": definitions,
    }
