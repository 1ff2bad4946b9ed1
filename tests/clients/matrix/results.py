"""What the matrix found last, as the repository keeps it: ``results.json`` beside this module.

Per client its version and, per check and level, the verdict; no times, no addresses, so that the
file changes only when something has changed. ``run --write`` writes it, docs/clients.md shows it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tests.clients.matrix.client import CHECKS, Client
from tests.clients.matrix.questions import LEVELS, checks_at, limit_of
from tests.clients.matrix.verdicts import CheckVerdict, Result

FILE: Final = Path(__file__).with_name("results.json")

Verdicts = Mapping[str, Mapping[int, CheckVerdict]]
"""By check and level."""


class Stored(NamedTuple):
    """One client as it was found."""

    version: str
    language: str
    verdicts: Verdicts


def load(file: Path = FILE) -> dict[str, Stored]:
    """By the client's name."""
    if not file.exists():
        return {}
    return {
        name: Stored(
            each["version"],
            each["language"],
            {
                check: {int(level): CheckVerdict(verdict) for level, verdict in levels.items()}
                for check, levels in each["checks"].items()
            },
        )
        for name, each in json.loads(file.read_text("utf-8")).items()
    }


def save(stored: Mapping[str, Stored], file: Path = FILE) -> None:
    """One line per check."""
    clients = []
    for name in sorted(stored):
        each = stored[name]
        checks = ",\n".join(
            f"   {json.dumps(check)}: {json.dumps({str(n): levels[n] for n in sorted(levels)})}"
            for check, levels in sorted(each.verdicts.items(), key=lambda item: rank(item[0]))
        )
        clients.append(
            f" {json.dumps(name)}: {{\n"
            f'  "version": {json.dumps(each.version)},\n'
            f'  "language": {json.dumps(each.language)},\n'
            f'  "checks": {{\n{checks}\n  }}\n }}'
        )
    file.write_text("{\n" + ",\n".join(clients) + "\n}\n", "utf-8")


def rank(check: str) -> tuple[int, str]:
    """The list's checks in its order, then the further ones by name."""
    return (CHECKS.index(check), "") if check in CHECKS else (len(CHECKS), check)


def merged(
    stored: Mapping[str, Stored], clients: Sequence[Client], results: Iterable[Result]
) -> dict[str, Stored]:
    """What is stored, with these clients as they are now; their limits come from the roster."""
    found: dict[str, dict[str, dict[int, CheckVerdict]]] = {client.name: {} for client in clients}
    for client in clients:
        for level in LEVELS:
            for check in checks_at(client, level):
                if limit_of(client, check, level) is not None:
                    found[client.name].setdefault(check, {})[level] = CheckVerdict.LIMIT
    for each in results:
        found[each.client].setdefault(each.check, {})[each.level] = each.verdict
    return {
        **stored,
        **{
            client.name: Stored(client.version, client.language, found[client.name])
            for client in clients
        },
    }


def disagreements(stored: Mapping[str, Stored], roster: Sequence[Client]) -> list[str]:
    """Where the file and the roster do not fit, or a check is not passed."""
    wrong = [f"{name}: not in the roster" for name in stored.keys() - {c.name for c in roster}]
    for client in roster:
        if client.name not in stored:
            wrong.append(f"{client.name}: never run")
            continue
        have = stored[client.name]
        if have.version != client.version:
            wrong.append(f"{client.name}: run as {have.version}, is {client.version}")
        wanted = {(check, level) for level in LEVELS for check in checks_at(client, level)}
        there = {(check, level) for check, levels in have.verdicts.items() for level in levels}
        wrong += [
            f"{client.name}: {check}@{level} {'was not asked' if missing else 'is not asked'}"
            for cells, missing in ((wanted - there, True), (there - wanted, False))
            for check, level in cells
        ]
        for check, level in wanted & there:
            is_limit = limit_of(client, check, level) is not None
            verdict = have.verdicts[check][level]
            if verdict is not (CheckVerdict.LIMIT if is_limit else CheckVerdict.PASSED):
                wrong.append(f"{client.name}: {check}@{level} is stored as {verdict}")
    return sorted(wrong)
