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
from txnsim_lab.conformance._book.casebook_reader import CASEBOOK_FOLDER
from txnsim_lab.conformance._book.recordings import (
    Recording,
    Recordings,
    recordings_from_lines,
    recordings_to_lines,
)

ANSWERS: Final = CASEBOOK_FOLDER / "answers"
"""Folder with the answers of the reference release."""

RecordingsByCase = Mapping[str, Recordings]
"""The recordings of the cases of a file, by name and level."""


class Answers:
    """Recordings of one release line: those of the reference, overlaid with its own.

    Args:
        own_folder: Folder with the answers that differ from the reference's; None for the
            reference itself.
    """

    def __init__(self, own_folder: Path | None) -> None:
        self._own_folder = own_folder
        folder = own_folder or ANSWERS
        head = transcript_head(recorded_files(folder)[0], folder)
        self.kafka = str(head["kafka"])
        """The patch release of Kafka that gave the answers."""
        self._recordings_of_file = cache(self._overlaid_recordings)

    @classmethod
    def of_release(cls, release: str) -> Answers:
        """The answers of a release line.

        Raises:
            ConfigError: There are no recordings of this release line.
        """
        if release == REFERENCE.name:
            return cls(None)
        if not own_folder_of(release).is_dir():
            releases = [
                path.name.partition("-")[2] for path in CASEBOOK_FOLDER.glob(f"{ANSWERS.name}-*")
            ]
            known_releases = ", ".join([*sorted(releases), REFERENCE.name])
            raise ConfigError(
                f"Kafka {release} was not asked; answers are known of {known_releases}"
            )
        return cls(own_folder_of(release))

    def of_case(self, file: str, case_name: str, level: int) -> Recording | None:
        """The recorded answers to a case; None if the release can't play it."""
        recordings, cases_left_out = self._recordings_of_file(file)
        return None if case_name in cases_left_out else recordings.get(case_name, {}).get(level)

    def _overlaid_recordings(self, file: str) -> tuple[RecordingsByCase, frozenset[str]]:
        recordings = read_recordings(file)
        if self._own_folder is None or not transcript_path(file, self._own_folder).exists():
            return recordings, frozenset()
        for case_name, levels in read_recordings(file, self._own_folder).items():
            recordings[case_name] = {**recordings.get(case_name, {}), **levels}
        return recordings, frozenset(transcript_head(file, self._own_folder)["without"])


def own_folder_of(release: str) -> Path:
    """Folder of the answers of a release that differ from those of the reference."""
    return ANSWERS.with_name(f"{ANSWERS.name}-{release}")


def transcript_path(file: str, folder: Path = ANSWERS) -> Path:
    """Path of the transcript for a file of cases."""
    return folder / f"{file}.jsonl"


def recorded_files(folder: Path = ANSWERS) -> list[str]:
    """The files of cases that have a transcript."""
    return sorted(
        transcript_file.relative_to(folder).with_suffix("").as_posix()
        for transcript_file in folder.glob("*/*.jsonl")
    )


def read_recordings(file: str, folder: Path = ANSWERS) -> dict[str, dict[int, Recording]]:
    """Read the transcript for a file of cases; empty if there is none."""
    path = transcript_path(file, folder)
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
        head["case"]: recordings_from_lines(lines, head["levels"])
        for head, lines in zip(heads, lines_by_case, strict=True)
    }


def recorded_release(file: str, folder: Path = ANSWERS) -> str:
    """The release line that answered a file of cases: ``4.3`` for ``4.3.1``."""
    return str(transcript_head(file, folder)["kafka"]).rpartition(".")[0]


def transcript_head(file: str, folder: Path = ANSWERS) -> dict[str, Any]:
    """First line of a transcript: the patch release, and for an older release the cases that it
    can't play.
    """
    with transcript_path(file, folder).open(encoding="utf-8") as transcript:
        head: dict[str, Any] = json.loads(transcript.readline())
    return head


def transcript_text(
    file: str,
    recordings_by_case: RecordingsByCase,
    case_names: Iterable[str],
    *,
    kafka_version: str,
    **head_fields: Any,
) -> str:
    """Return the text of the transcript for a file of cases, in the order of the file;
    ``head_fields`` go into its first line.
    """
    lines = [_to_json({"cases": file, "kafka": kafka_version, **head_fields})]
    for case_name in case_names:
        if case_name in recordings_by_case:
            lines.append(
                _to_json({"case": case_name, "levels": sorted(recordings_by_case[case_name])})
            )
            lines += recordings_to_lines(recordings_by_case[case_name])
    return "".join(f"{line}\n" for line in lines)


def _to_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
