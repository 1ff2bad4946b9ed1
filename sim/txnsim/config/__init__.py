"""Files to settings: ``load(path)`` reads our YAML or a broker's ``server.properties``.

- ``_files``: ``load`` and its result, a ``Configuration``; ``settings_of`` for programs.
- ``properties``: the syntax of Java's property files, with line numbers; ``lookup`` prefers those
  of one listener to the common ones.
- ``_kafka_names``: every property of a real broker, and why some have no effect here.
- ``_listeners``, ``_nodes``: what a broker's listeners mean here, and which node a file belongs to.
- ``_broker_security``, ``_security_section``: security in a broker's properties and in our YAML;
  ``_stores`` reads keystores.
- ``client_settings``, ``_client_security``: what a client's properties mean here.
- ``yaml_bounds``: a YAML document of a bounded size, with the line of each key.
- ``presets``: named groups of settings.
- ``_model``: the pydantic models; imported only when a file is read, because pydantic costs more
  time to import than the rest of the program. ``complaints`` words its errors, ``json_schema``
  makes a schema for editors.

An unknown or wrong setting is an error that names file, line and field. A setting that a real
broker knows, but that has no use here, is accepted with a warning: silently dropping settings would
hide mistakes.

Kafka's counterpart: KafkaConfig and its ConfigDef. The names below are public.
"""

from __future__ import annotations

from txnsim.config._files import Configuration, load, settings_of
from txnsim.config._listeners import bound_everywhere as bound_everywhere  # for the container

__all__ = ["Configuration", "load", "settings_of"]
