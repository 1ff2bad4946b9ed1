"""What a real Apache Kafka answered to the cases: ``casebook/answers/FOLDER/FILE.jsonl``.

One file for each file of cases. A line ``{"case": NAME, "levels": [...]}`` opens a case; then
follow its exchanges, as in the files of stories (``recordings``).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from txnsim.errors import ConfigError
from txnsim.releases import REFERENCE
from txnsim_lab.conformance._book.casebook_reader import BOOK
from txnsim_lab.conformance._book.recordings import Recording, Recordings, from_lines, to_lines

ANSWERS: Final = BOOK / "answers"
"""Folder with the answers of the reference release."""

ByCase = Mapping[str, Recordings]
"""The recordings of the cases of a file, by name and level."""


class Answers:
    """Recordings of one release line: those of the reference, overlaid with its own.

    Args:
        own: Folder of its own recordings; None for the reference.
    """

    def __init__(self, own_folder: Path | None) -> None:
        self._own = own_folder
        folder = own_folder or ANSWERS
        head = head_of(recorded_files(folder)[0], folder)
        self.kafka = str(head["kafka"])
        """The patch release of Kafka that gave the answers."""
        self._read_yaml = cache(self._overlaid_recordings)

    @classmethod
    def of_release(cls, release: str) -> Answers:
        """The answers of a release line.

        Raises:
            ConfigError: There are no recordings of it.
        """
        if release == REFERENCE.name:
            return cls(None)
        if not own_of(release).is_dir():
            releases = [path.name.partition("-")[2] for path in BOOK.glob(f"{ANSWERS.name}-*")]
            known_releases = ", ".join([*sorted(releases), REFERENCE.name])
            raise ConfigError(
                f"Kafka {release} was not asked; answers are known of {known_releases}"
            )
        return cls(own_of(release))

    def of_case(self, file: str, case_name: str, level: int) -> Recording | None:
        """The recorded answers to a case; None if the release can't play it."""
        recordings, left_out = self._read_yaml(file)
        return None if case_name in left_out else recordings.get(case_name, {}).get(level)

    def _overlaid_recordings(self, file: str) -> tuple[ByCase, frozenset[str]]:
        recordings = read(file)
        if self._own is None or not path_of(file, self._own).exists():
            return recordings, frozenset()
        for case_name, levels in read(file, self._own).items():
            recordings[case_name] = {**recordings.get(case_name, {}), **levels}
        return recordings, frozenset(head_of(file, self._own)["without"])


def own_of(release: str) -> Path:
    """Folder of the answers of a release that differ from those of the reference."""
    return ANSWERS.with_name(f"{ANSWERS.name}-{release}")


def path_of(file: str, folder: Path = ANSWERS) -> Path:
    """Path of the transcript for a file of cases."""
    return folder / f"{file}.jsonl"


def recorded_files(folder: Path = ANSWERS) -> list[str]:
    """The files of cases that have a transcript."""
    return sorted(
        path.relative_to(folder).with_suffix("").as_posix() for path in folder.glob("*/*.jsonl")
    )


def read(file: str, folder: Path = ANSWERS) -> dict[str, dict[int, Recording]]:
    """Read the transcript for a file of cases; empty if there is none."""
    path = path_of(file, folder)
    if not path.exists():
        return {}
    heads: list[dict[str, Any]] = []
    lines_by_case: list[list[str]] = []
    for line in path.read_text("utf-8").splitlines()[1:]:
        if line.startswith('{"case":'):
            heads.append(json.loads(line))
            lines_by_case.append([])
        else:
            lines_by_case[-1].append(line)
    return {
        head["case"]: from_lines(lines, head["levels"])
        for head, lines in zip(heads, lines_by_case, strict=True)
    }


def release_of(file: str, folder: Path = ANSWERS) -> str:
    """The release line that answered a file of cases: ``4.3`` for ``4.3.1``."""
    return str(head_of(file, folder)["kafka"]).rpartition(".")[0]


def head_of(file: str, folder: Path = ANSWERS) -> dict[str, Any]:
    """First line of a transcript: the patch release, and for an older release the cases that it
    can't play.
    """
    with path_of(file, folder).open(encoding="utf-8") as transcript:
        head: dict[str, Any] = json.loads(transcript.readline())
    return head


def text_of(
    file: str, recordings: ByCase, order: Iterable[str], *, kafka: str, **head_fields: Any
) -> str:
    """Return the text of the transcript for a file of cases, in the order of the file;
    ``head_fields`` go into its first line.
    """
    lines = [_to_json({"cases": file, "kafka": kafka, **head_fields})]
    for case_name in order:
        if case_name in recordings:
            lines.append(_to_json({"case": case_name, "levels": sorted(recordings[case_name])}))
            lines += to_lines(recordings[case_name])
    return "".join(f"{line}\n" for line in lines)


def _to_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
