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


class StoredClient(NamedTuple):
    """The stored verdicts of one client, with its version."""

    version: str
    language: str
    verdicts: Verdicts


def load(file: Path = FILE) -> dict[str, StoredClient]:
    """The stored results by the client's name."""
    if not file.exists():
        return {}
    return {
        name: StoredClient(
            entry["version"],
            entry["language"],
            {
                check: {
                    int(transaction_version): CheckVerdict(verdict)
                    for transaction_version, verdict in transaction_versions.items()
                }
                for check, transaction_versions in entry["checks"].items()
            },
        )
        for name, entry in json.loads(file.read_text("utf-8")).items()
    }


def save(stored_clients: Mapping[str, StoredClient], file: Path = FILE) -> None:
    """Write the results, one line for each check."""
    clients = []
    for client_name in sorted(stored_clients):
        client = stored_clients[client_name]
        checks_text = ",\n".join(
            f"   {json.dumps(check_name)}:"
            f" {json.dumps({str(n): verdicts[n] for n in sorted(verdicts)})}"
            for check_name, verdicts in sorted(
                client.verdicts.items(), key=lambda check_levels: rank(check_levels[0])
            )
        )
        clients.append(
            f" {json.dumps(client_name)}: {{\n"
            f'  "version": {json.dumps(client.version)},\n'
            f'  "language": {json.dumps(client.language)},\n'
            f'  "checks": {{\n{checks_text}\n  }}\n }}'
        )
    file.write_text("{\n" + ",\n".join(clients) + "\n}\n", "utf-8")


def rank(check_name: str) -> tuple[int, str]:
    """The list's checks in its order, then the further ones by name."""
    return (CHECKS.index(check_name), "") if check_name in CHECKS else (len(CHECKS), check_name)


def merge_results(
    stored_clients: Mapping[str, StoredClient], clients: Sequence[Client], results: Iterable[Result]
) -> dict[str, StoredClient]:
    """The stored results, with new results of these clients; limits come from the roster."""
    verdicts: dict[str, dict[str, dict[int, CheckVerdict]]] = {
        client.name: {} for client in clients
    }
    for client in clients:
        for transaction_version in LEVELS:
            for check_name in checks_at(client, transaction_version):
                if limit_of(client, check_name, transaction_version) is not None:
                    verdicts[client.name].setdefault(check_name, {})[transaction_version] = (
                        CheckVerdict.LIMIT
                    )
    for result in results:
        verdicts[result.client].setdefault(result.check, {})[result.level] = result.verdict
    return {
        **stored_clients,
        **{
            client.name: StoredClient(client.version, client.language, verdicts[client.name])
            for client in clients
        },
    }


def disagreements(
    stored_clients: Mapping[str, StoredClient], roster: Sequence[Client]
) -> list[str]:
    """The checks that the file lacks, that the roster lacks, or that did not pass."""
    problems = [
        f"{name}: not in the roster"
        for name in stored_clients.keys() - {client.name for client in roster}
    ]
    for client in roster:
        if client.name not in stored_clients:
            problems.append(f"{client.name}: never run")
            continue
        stored_client = stored_clients[client.name]
        if stored_client.version != client.version:
            problems.append(f"{client.name}: run as {stored_client.version}, is {client.version}")
        expected_cells = {
            (check_name, transaction_version)
            for transaction_version in LEVELS
            for check_name in checks_at(client, transaction_version)
        }
        stored_cells = {
            (check_name, transaction_version)
            for check_name, transaction_versions in stored_client.verdicts.items()
            for transaction_version in transaction_versions
        }
        problems += [
            f"{client.name}: {check_name}@{level}"
            f" {'was not asked' if is_missing else 'is not asked'}"
            for cells, is_missing in (
                (expected_cells - stored_cells, True),
                (stored_cells - expected_cells, False),
            )
            for check_name, level in cells
        ]
        for check_name, level in expected_cells & stored_cells:
            is_limit = limit_of(client, check_name, level) is not None
            verdict = stored_client.verdicts[check_name][level]
            if verdict is not (CheckVerdict.LIMIT if is_limit else CheckVerdict.PASSED):
                problems.append(f"{client.name}: {check_name}@{level} is stored as {verdict}")
    return sorted(problems)
