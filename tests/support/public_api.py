"""What is public of the Python packages, from their ``__all__``: docs/public-api.md."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import import_module
from typing import Final

MODULES: Final = (
    "txnsim.testing",
    "txnsim.client",
    "txnsim.client.errors",
    "txnsim_spark",
    "txnsim.config",
    "txnsim.errors",
)
"""Modules whose names others may import, in the order of the page."""

INTRODUCTION: Final = """\
What other code may import, and what else keeps its form. All other modules and names may change in
any release, without a word in the [changelog](../CHANGELOG.md). A change of what this page lists is
told there, under "What breaks" where it breaks.

There are three packages: `txnsim` is the broker with its client and `txnsim.testing`, `txnsim_lab`
what is done with a cluster (stories, judges, runs from seeds), `txnsim_spark` what reads Kafka's
files with Spark. `txnsim` works without the others; what it borrows of them says which one is
missing. Once all of it was `txnsim`: `txnsim.pipeline` (now `txnsim_spark`) and `txnsim.scenario`,
`.check`, `.simulation`, `.proxy` (now of `txnsim_lab`) still import, as the same modules."""

OF_OTHERS: Final = {"ErrorCode": "Kafka's error codes by name (kio's enumeration)"}
"""Names whose docstrings are not ours."""

HEAD: Final = ("Name", "What it is")

NOT_PYTHON: Final = """\
- the Kafka protocol that brokers speak: [apis.md](apis.md); differences from Apache Kafka are in
  [DEVIATIONS.md](../DEVIATIONS.md)
- commands, options, exit statuses and `--json`: [cli.md](cli.md)
- the control port, by its OpenAPI document: [control-api.md](control-api.md)
- files: settings ([settings.md](settings.md)), scenarios
  ([writing-scenarios.md](writing-scenarios.md)), fault rules ([faults.md](faults.md)), traces by
  their `schema` ([trace-kinds.md](trace-kinds.md))
- fixtures, markers and ini options of the pytest plugin: [testing.md](testing.md)
- tables and their columns: [kafka-log-tables.md](kafka-log-tables.md),
  [trace-tables.md](trace-tables.md)
- names and labels of metrics: [metrics.md](metrics.md)"""


def rows(module: str) -> Iterator[tuple[str, str]]:
    """Each public name of a module, and the first sentence of its docstring."""
    found = import_module(module)
    for name in sorted(found.__all__):
        yield f"`{name}`", OF_OTHERS.get(name) or first_sentence(getattr(found, name))


def first_sentence(value: object) -> str:
    """What an object says of itself, up to the first full stop."""
    paragraph = (inspect.getdoc(value) or "").partition("\n\n")[0]
    return " ".join(paragraph.split()).partition(". ")[0].rstrip(".").replace("``", "`")
