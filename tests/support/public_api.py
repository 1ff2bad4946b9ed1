"""What is public of the Python packages: docs/public-api.md.

A module is public with its ``__all__`` where its docstring says "the names below are public"; else
by the names that a page shows. Both are doors (``test_tidy.doors``).
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]

INTRODUCTION: Final = """\
What other code may import, and what else keeps its form. All other modules and names may change in
any release, without a word in the [changelog](../CHANGELOG.md). A change of what this page lists is
told there, under "What breaks" where it breaks.

There are three packages: `txnsim` is the broker with its client and `txnsim.testing`, `txnsim_lab`
what is done with a cluster (stories, judges, runs from seeds), `txnsim_spark` what reads Kafka's
files with Spark. `txnsim` works without the others; what it borrows of them says which one is
missing. Once all of it was `txnsim`: `txnsim.pipeline` (now `txnsim_spark`) and `txnsim.scenario`,
`.check`, `.simulation`, `.proxy` (now of `txnsim_lab`) still import, as the same modules."""

OF_OTHERS: Final = {
    "BrokerId": "The id of a broker: an `int` with a type of its own",
    "ErrorCode": "Kafka's error codes by name (kio's enumeration)",
}
"""Names whose docstrings are not ours."""

HEAD: Final = ("Name", "What it is")

SHOWN: Final = """\
## What pages import

Pages of the documentation name these, in an example or a sentence."""

NOT_PYTHON: Final = """\
## Besides Python

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


def sections() -> Iterator[str]:
    for path in sorted((ROOT / "sim").rglob("*.py")):
        docstring = path.read_text("utf-8").partition('"""\n\n')[0]
        if "names below are public" in " ".join(docstring.split()):
            yield _module_of(path)


@cache
def shown_names() -> frozenset[tuple[str, str]]:
    """Pairs (module, name) that pages import or mention; the name is empty for a whole module."""
    modules = {_module_of(path) for path in (ROOT / "sim").rglob("*.py")}
    pairs: set[tuple[str, str]] = set()
    for page_file in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        if "contributing" in page_file.parts or page_file.name == "public-api.md":
            continue
        page_text = page_file.read_text("utf-8")
        for module, names in re.findall(r"^from (txnsim[\w.]*) import ([\w, ]+)$", page_text, re.M):
            pairs |= {(module, name) for name in names.split(", ")}
        for dotted in re.findall(r"`(txnsim\w*(?:\.\w+)+)`", page_text):
            module, _, name = dotted.rpartition(".")
            pairs |= {(module, name)} if module in modules else set()
    return frozenset(
        (f"{module}.{name}", "") if f"{module}.{name}" in modules else (module, name)
        for module, name in pairs
    )


def shown_modules() -> frozenset[str]:
    """The modules that pages name as public."""
    return frozenset(module_name for module_name, _ in shown_names())


def shown_rows() -> Iterator[tuple[str, str]]:
    """Rows for names that pages show and whose modules are not declared public."""
    listed_names = {
        (module_name, name)
        for module_name in sections()
        for name in import_module(module_name).__all__
    }
    for module_name, name in sorted(shown_names() - listed_names):
        meaning = OF_OTHERS.get(name) or _sentence(_docstring(module_name, name))
        yield f"`{module_name}.{name}`".replace(".`", "`"), meaning


def _docstring(module_name: str, name: str) -> str:
    """The docstring of a module or name. It is parsed, not imported, as one module needs an
    optional library.
    """
    path = ROOT / "sim" / module_name.replace(".", "/")
    path = path.with_suffix(".py") if not path.is_dir() else path / "__init__.py"
    module_tree = ast.parse(path.read_text("utf-8"))
    for node in (module_tree, *module_tree.body) if name else (module_tree,):
        match node:
            case ast.ImportFrom(module=str(origin), names=names):
                if name in {alias.name for alias in names}:
                    return _docstring(origin, name)
            case ast.Module() | ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                if getattr(node, "name", "") == name:
                    return ast.get_docstring(node) or ""
            case _:
                pass
    return ""


def _module_of(path: Path) -> str:
    parts = path.relative_to(ROOT / "sim").with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def rows(module_name: str) -> Iterator[tuple[str, str]]:
    """Each public name of a module, and the first sentence of its docstring."""
    imported_module = import_module(module_name)
    for field_name in sorted(imported_module.__all__):
        yield (
            f"`{field_name}`",
            OF_OTHERS.get(field_name) or first_sentence(getattr(imported_module, field_name)),
        )


def first_sentence(value: object) -> str:
    """The first sentence of an object's docstring."""
    return _sentence(inspect.getdoc(value) or "")


def _sentence(docstring: str) -> str:
    text = " ".join(docstring.partition("\n\n")[0].split())
    return text.partition(". ")[0].rstrip(".").replace("``", "`")
