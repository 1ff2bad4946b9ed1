"""What txnsim stands on, audited: ``python -m tests.ci.audit``.

- Each requirement of ``pyproject.toml`` is pinned or has a lower bound.
- Each distribution that is installed for it, with all that they need, has a licence of the
  allow-list.
- No version that is installed has a known vulnerability: ``pip-audit`` asks PyPI's JSON API. Where
  an index does not serve that (a mirror), the question can't be asked; that is said, and is no
  failure.

Lines ``PASS``, ``FAIL`` and ``OPEN``, a last line with the count; exit status 1 after a ``FAIL``.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import subprocess
import sys
import tempfile
import tomllib
import venv
from collections.abc import Iterable, Mapping
from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple

from packaging.requirements import Requirement

ROOT: Final = Path(__file__).resolve().parents[2]

PERMISSIVE: Final = frozenset(
    {
        "0BSD",
        "Apache-2.0",
        "Apache-2.0 WITH LLVM-exception",
        "Apache Software License",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "BSD License",
        "CC0-1.0",
        "ISC",
        "MIT",
        "MIT-0",
        "MIT-CMU",
        "MIT License",
        "PSF-2.0",
        "Python Software Foundation License",
        "Zlib",
    }
)
EXCEPTIONS: Final[Mapping[str, str]] = {
    "crc32c": "LGPL-2.1-or-later: an extension module of its own, used as it is and not shipped",
}
TIMEOUT_S: Final = 240.0


class AuditResult(Enum):
    """The result of an audit question."""

    PASS = "PASS"
    FAIL = "FAIL"
    OPEN = "OPEN"


class AuditLine(NamedTuple):
    """One answer."""

    word: AuditResult
    text: str


def requirements(project_folder: Path = ROOT / "pyproject.toml") -> list[Requirement]:
    """A user's requirements: the dependencies and every extra, except extras that only name another
    extra.
    """
    table = tomllib.loads(project_folder.read_text())["project"]
    extras = table.get("optional-dependencies", {}).values()
    all_requirements = [
        Requirement(text) for group in (table["dependencies"], *extras) for text in group
    ]
    return [requirement for requirement in all_requirements if requirement.name != table["name"]]


def unbounded_requirements(declared_requirements: Iterable[Requirement]) -> list[str]:
    """Requirements that any version would satisfy, however old."""
    return [
        str(requirement)
        for requirement in declared_requirements
        if not {"==", ">=", "~="} & _operators(requirement)
    ]


def _operators(requirement: Requirement) -> set[str]:
    return {specifier.operator for specifier in requirement.specifier}


def installed_distributions(
    declared_requirements: Iterable[Requirement],
) -> dict[str, importlib.metadata.Distribution]:
    """The installed distributions that the requirements need, directly or not."""
    distributions: dict[str, importlib.metadata.Distribution] = {}
    remaining_requirements = list(declared_requirements)
    while remaining_requirements:
        requirement = remaining_requirements.pop()
        distribution_name = re.sub(r"[-_.]+", "-", requirement.name).lower()
        if distribution_name in distributions or not _applies(requirement, {""}):
            continue
        try:
            distributions[distribution_name] = importlib.metadata.distribution(distribution_name)
        except importlib.metadata.PackageNotFoundError:
            continue  # an extra that this environment does not have
        needs = map(Requirement, distributions[distribution_name].requires or ())
        remaining_requirements += [
            need for need in needs if _applies(need, requirement.extras or {""})
        ]
    return distributions


def _applies(requirement: Requirement, extras: set[str]) -> bool:
    return requirement.marker is None or any(
        requirement.marker.evaluate({"extra": extra}) for extra in extras
    )


def licences(metadata: Mapping[str, object], classifiers: Iterable[str]) -> set[str]:
    """The licences of a distribution. All of them apply (AND), or any may be chosen (OR)."""
    expression = str(metadata.get("License-Expression") or "")
    if expression:
        return {part.strip(" ()") for part in re.split(r" AND ", expression)}
    classified = {
        classifier.rpartition(" :: ")[2]
        for classifier in classifiers
        if classifier.startswith("License ::")
    }
    if classified:
        return classified
    return {str(metadata.get("License") or "no licence is told").splitlines()[0]}


def is_permissive(licence: str) -> bool:
    """Whether a licence is permissive. Of alternatives one is enough."""
    return any(part.strip(" ()") in PERMISSIVE for part in licence.split(" OR "))


def judge_licences(distributions: Mapping[str, importlib.metadata.Distribution]) -> list[AuditLine]:
    """A line for each distribution whose licence is not on the list, or one line that all licences
    are.
    """
    lines = []
    for distribution_name, distribution in sorted(distributions.items()):
        fields = ("License-Expression", "License")
        licence_fields = {
            field_name: distribution.metadata[field_name]
            for field_name in fields
            if field_name in distribution.metadata
        }
        licence_names = licences(licence_fields, distribution.metadata.get_all("Classifier") or ())
        if all(map(is_permissive, licence_names)):
            continue
        if distribution_name in EXCEPTIONS:
            lines.append(
                AuditLine(
                    AuditResult.PASS,
                    f"{distribution_name}: an exception. {EXCEPTIONS[distribution_name]}",
                )
            )
        else:
            lines.append(
                AuditLine(
                    AuditResult.FAIL,
                    f"{distribution_name}: {', '.join(sorted(licence_names))} is not on the list",
                )
            )
    if not any(line.word is AuditResult.FAIL for line in lines):
        lines.append(AuditLine(AuditResult.PASS, f"licences of {len(distributions)} distributions"))
    return lines


def judge_vulnerabilities(report_text: str) -> list[AuditLine]:
    """What ``pip-audit --format json`` has said."""
    lines, audited_count = [], 0
    for dependency in json.loads(report_text)["dependencies"]:
        if "skip_reason" in dependency:
            lines.append(
                AuditLine(AuditResult.OPEN, f"{dependency['name']}: {dependency['skip_reason']}")
            )
            continue
        audited_count += 1
        for flaw in dependency["vulns"]:
            fixed = ", ".join(flaw["fix_versions"]) or "no version yet"
            text = f"{dependency['name']} {dependency['version']}: {flaw['id']}, mended in {fixed}"
            lines.append(AuditLine(AuditResult.FAIL, text))
    if audited_count and not any(line.word is AuditResult.FAIL for line in lines):
        lines.append(
            AuditLine(AuditResult.PASS, f"no known vulnerability in {audited_count} distributions")
        )
    return lines


def ask_vulnerabilities(
    distributions: Mapping[str, importlib.metadata.Distribution],
) -> list[AuditLine]:
    """Run ``pip-audit`` in an environment of its own."""
    with tempfile.TemporaryDirectory(prefix="txnsim-audit-") as folder_path:
        home = Path(folder_path)
        venv.create(home / "venv", with_pip=True)
        python_program = str(home / "venv" / "bin" / "python")
        pip = [
            python_program,
            "-m",
            "pip",
            "--disable-pip-version-check",
            "install",
            "-q",
            "pip-audit",
        ]
        pins_file = home / "pins.txt"
        audit = [
            python_program,
            "-m",
            "pip_audit",
            "--requirement",
            str(pins_file),
            "--no-deps",
            "--disable-pip",
        ]
        installation = _run(pip)
        if installation.returncode:
            return [
                AuditLine(
                    AuditResult.OPEN,
                    f"pip-audit can't be installed: {_last_line(installation.stderr)}",
                )
            ]
        # One first: an index that does not know it knows none, and is not asked for the others.
        names = sorted(distributions)
        for audited_names in (names[:1], names[1:]):
            pins_file.write_text(
                "".join(
                    f"{audited_name}=={distributions[audited_name].version}\n"
                    for audited_name in audited_names
                )
            )
            audit_process = _run([*audit, "--vulnerability-service", "pypi", "--format", "json"])
            if not audit_process.stdout.startswith("{"):
                return [
                    AuditLine(
                        AuditResult.OPEN, f"vulnerabilities: {_last_line(audit_process.stderr)}"
                    )
                ]
            printed_lines = judge_vulnerabilities(audit_process.stdout)
            if all(line.word is AuditResult.OPEN for line in printed_lines):
                reason = f"the index does not tell of vulnerabilities ({printed_lines[0].text})"
                return [AuditLine(AuditResult.OPEN, reason)]
        return printed_lines


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["it says nothing"])[-1]


def main() -> int:
    declared_requirements = requirements()
    distributions = installed_distributions(declared_requirements)
    loose_requirements = unbounded_requirements(declared_requirements)
    lines = [
        AuditLine(AuditResult.FAIL, f"{text}: no version is too old") for text in loose_requirements
    ]
    if not loose_requirements:
        lines.append(
            AuditLine(
                AuditResult.PASS, f"{len(declared_requirements)} requirements are pinned or bounded"
            )
        )
    lines += judge_licences(distributions) + ask_vulnerabilities(distributions)
    for line in lines:
        print(f"{line.word.value} {line.text}")
    failed_count = sum(line.word is AuditResult.FAIL for line in lines)
    print(f"{sum(line.word is AuditResult.PASS for line in lines)} passed, {failed_count} failed")
    return 1 if failed_count else 0


if __name__ == "__main__":
    sys.exit(main())
