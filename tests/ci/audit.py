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


class Word(Enum):
    """How a question was answered."""

    PASS = "PASS"
    FAIL = "FAIL"
    OPEN = "OPEN"


class Line(NamedTuple):
    """One answer."""

    word: Word
    text: str


def requirements(project: Path = ROOT / "pyproject.toml") -> list[Requirement]:
    """Those of a user: the dependencies and every extra, but for extras that name another one."""
    table = tomllib.loads(project.read_text())["project"]
    extras = table.get("optional-dependencies", {}).values()
    every = [Requirement(text) for some in (table["dependencies"], *extras) for text in some]
    return [one for one in every if one.name != table["name"]]


def unbounded(wanted: Iterable[Requirement]) -> list[str]:
    """Requirements that any version would satisfy, however old."""
    return [str(one) for one in wanted if not {"==", ">=", "~="} & _operators(one)]


def _operators(one: Requirement) -> set[str]:
    return {each.operator for each in one.specifier}


def installed(wanted: Iterable[Requirement]) -> dict[str, importlib.metadata.Distribution]:
    """What is installed for them, with all that those need."""
    found: dict[str, importlib.metadata.Distribution] = {}
    todo = list(wanted)
    while todo:
        one = todo.pop()
        name = re.sub(r"[-_.]+", "-", one.name).lower()
        if name in found or not _applies(one, {""}):
            continue
        try:
            found[name] = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # an extra that this environment does not have
        needs = map(Requirement, found[name].requires or ())
        todo += [need for need in needs if _applies(need, one.extras or {""})]
    return found


def _applies(one: Requirement, extras: set[str]) -> bool:
    return one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in extras)


def licences(metadata: Mapping[str, object], classifiers: Iterable[str]) -> set[str]:
    """The licences of a distribution: all of them hold (AND), or any (OR) may be chosen."""
    expression = str(metadata.get("License-Expression") or "")
    if expression:
        return {part.strip(" ()") for part in re.split(r" AND ", expression)}
    told = {each.rpartition(" :: ")[2] for each in classifiers if each.startswith("License ::")}
    if told:
        return told
    return {str(metadata.get("License") or "no licence is told").splitlines()[0]}


def is_permissive(licence: str) -> bool:
    """Whether one is allowed; of alternatives any."""
    return any(part.strip(" ()") in PERMISSIVE for part in licence.split(" OR "))


def judge_licences(found: Mapping[str, importlib.metadata.Distribution]) -> list[Line]:
    """A line for each distribution whose licence is not on the list, or one that says that all
    are."""
    lines = []
    for name, one in sorted(found.items()):
        fields = ("License-Expression", "License")
        given = {field: one.metadata[field] for field in fields if field in one.metadata}
        told = licences(given, one.metadata.get_all("Classifier") or ())
        if all(map(is_permissive, told)):
            continue
        if name in EXCEPTIONS:
            lines.append(Line(Word.PASS, f"{name}: an exception. {EXCEPTIONS[name]}"))
        else:
            lines.append(Line(Word.FAIL, f"{name}: {', '.join(sorted(told))} is not on the list"))
    if not any(line.word is Word.FAIL for line in lines):
        lines.append(Line(Word.PASS, f"licences of {len(found)} distributions"))
    return lines


def judge_vulnerabilities(report: str) -> list[Line]:
    """What ``pip-audit --format json`` has said."""
    lines, asked = [], 0
    for one in json.loads(report)["dependencies"]:
        if "skip_reason" in one:
            lines.append(Line(Word.OPEN, f"{one['name']}: {one['skip_reason']}"))
            continue
        asked += 1
        for flaw in one["vulns"]:
            fixed = ", ".join(flaw["fix_versions"]) or "no version yet"
            text = f"{one['name']} {one['version']}: {flaw['id']}, mended in {fixed}"
            lines.append(Line(Word.FAIL, text))
    if asked and not any(line.word is Word.FAIL for line in lines):
        lines.append(Line(Word.PASS, f"no known vulnerability in {asked} distributions"))
    return lines


def ask_vulnerabilities(found: Mapping[str, importlib.metadata.Distribution]) -> list[Line]:
    """Run ``pip-audit`` in an environment of its own."""
    with tempfile.TemporaryDirectory(prefix="txnsim-audit-") as folder:
        home = Path(folder)
        venv.create(home / "venv", with_pip=True)
        python = str(home / "venv" / "bin" / "python")
        pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "-q", "pip-audit"]
        pins = home / "pins.txt"
        audit = [
            python,
            "-m",
            "pip_audit",
            "--requirement",
            str(pins),
            "--no-deps",
            "--disable-pip",
        ]
        made = _run(pip)
        if made.returncode:
            return [Line(Word.OPEN, f"pip-audit can't be installed: {_last(made.stderr)}")]
        # One first: an index that does not know it knows none, and is not asked for the others.
        names = sorted(found)
        for some in (names[:1], names[1:]):
            pins.write_text("".join(f"{name}=={found[name].version}\n" for name in some))
            done = _run([*audit, "--vulnerability-service", "pypi", "--format", "json"])
            if not done.stdout.startswith("{"):
                return [Line(Word.OPEN, f"vulnerabilities: {_last(done.stderr)}")]
            lines = judge_vulnerabilities(done.stdout)
            if all(line.word is Word.OPEN for line in lines):
                said = f"the index does not tell of vulnerabilities ({lines[0].text})"
                return [Line(Word.OPEN, said)]
        return lines


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)


def _last(text: str) -> str:
    return (text.strip().splitlines() or ["it says nothing"])[-1]


def main() -> int:
    wanted = requirements()
    found = installed(wanted)
    loose = unbounded(wanted)
    lines = [Line(Word.FAIL, f"{text}: no version is too old") for text in loose]
    if not loose:
        lines.append(Line(Word.PASS, f"{len(wanted)} requirements are pinned or bounded"))
    lines += judge_licences(found) + ask_vulnerabilities(found)
    for line in lines:
        print(f"{line.word.value} {line.text}")
    failed = sum(line.word is Word.FAIL for line in lines)
    print(f"{sum(line.word is Word.PASS for line in lines)} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
