"""A folder for each failed situation, ready to be reported: text, story, versions, driver, and a
page.
"""

from __future__ import annotations

import platform
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from txnsim import VERSION
from txnsim.errors import ConfigError
from txnsim.files import problem_of
from txnsim.shell_text import ShellText
from txnsim.trace.trace_file import Recording
from txnsim_lab.exam.results import (
    PAGE_FILE_NAME,
    ExamRun,
    Result,
    escape_unprintable,
    repeated_situation,
)
from txnsim_lab.http.page.one_file import one_file

REPORT_FILE_NAME: Final = "README.md"
DRIVER_FOLDER_NAME: Final = "driver"
"""Name of the folder with the driver's own files."""
SOURCE_BYTES_MAX: Final = 1 << 18
DRIVER_TEXT_CHARS_MAX: Final = 2_000
"""Limit of the characters of one text from a driver."""
_MARKUP_RE: Final = re.compile(r"[<>&\[\]]")
_RULES_OF_APPLICATION: Final = (
    "The application obeys the library. It repeats a call whose error is retriable. It aborts after"
    " an error that is abortable. It closes the producer after every other error, and takes a new"
    " one with the same id. These are its calls in order, with the library's answers. A fault is a"
    " rule of what happens to requests on their way."
)
_LAWS_TEXT: Final = (
    "In every situation these laws hold, too: what the library calls committed is readable, once."
    " What it calls aborted is not. An end that is unknown is whole. Nothing hangs. When the fault"
    " is over, the application commits again."
)


def folders(
    run: ExamRun,
    *,
    command: ShellText,
    source_by_name: Mapping[str, bytes] | None = None,
    known_ids: Collection[str] = (),
) -> dict[str, bytes]:
    """The files of all folders by path: one folder for each miss that is not known.

    Args:
        run: The run of the exam.
        command: The command that played the run; ``--only`` and the level are added.
        source_by_name: Files of the driver, by name.
        known_ids: Ids of misses that are left out.

    Raises:
        ConfigError: A recording is too long for a page.
    """
    content_by_path: dict[str, bytes] = {}
    source_by_name = source_by_name or {}
    for missed_result in run.misses(known_ids):
        miss_folder = missed_result.folder
        repeat_command = repeated_situation(command, missed_result)
        report_text = "\n".join(
            _report_of_miss(run, missed_result, repeat_command, sorted(source_by_name))
        )
        content_by_path[f"{miss_folder}/{REPORT_FILE_NAME}"] = report_text.encode() + b"\n"
        content_by_path[f"{miss_folder}/story.txt"] = (
            "\n".join(map(_one_line, missed_result.story)).encode() + b"\n"
        )
        content_by_path[f"{miss_folder}/versions.json"] = msgspec.json.format(
            msgspec.json.encode(_version_fields(run, missed_result)), indent=1
        )
        content_by_path |= {
            f"{miss_folder}/{DRIVER_FOLDER_NAME}/{file_name}": file_bytes
            for file_name, file_bytes in source_by_name.items()
        }
        if missed_result.recording:
            recording = Recording.from_lines(missed_result.id, missed_result.recording.splitlines())
            content_by_path[f"{miss_folder}/{PAGE_FILE_NAME}"] = one_file(
                [(missed_result.id, recording)]
            ).encode()
    return content_by_path


def driver_sources(command: str, further_paths: Sequence[Path] = ()) -> dict[str, bytes]:
    """Read the text files that a driver's command names, and further files.

    Args:
        command: The value of ``--driver``.
        further_paths: Further files.

    Raises:
        ConfigError: A further file can't be read.
    """
    source_by_name: dict[str, bytes] = {}
    for path in map(Path, shlex.split(command)):
        if path.is_file() and path.stat().st_size <= SOURCE_BYTES_MAX:
            file_bytes = path.read_bytes()
            if b"\0" not in file_bytes:  # an interpreter is no file of the driver's own
                source_by_name[path.name] = file_bytes
    for path in further_paths:
        try:
            source_by_name[path.name] = path.read_bytes()
        except OSError as error:
            raise ConfigError(f"--driver-source {path}: {problem_of(error)}") from None
    return source_by_name


def _version_fields(run: ExamRun, missed_result: Result) -> dict[str, object]:
    return {
        "library": run.library,
        "version": run.version,
        "language": run.language,
        "runtime": run.runtime or "not told",
        "machine": f"{platform.system()} {platform.machine()}",
        "speaks transactions": f"version {run.speaks}",
        "kafka": run.kafka,
        "transaction.version": missed_result.level,
        "txnsim": VERSION,
    }


def _report_of_miss(
    run: ExamRun, missed_result: Result, repeat_command: str, source_names: list[str]
) -> Iterator[str]:
    library = _escape_markup(f"{run.library} {run.version}")
    yield (
        f"# {library}: {missed_result.situation}, at transaction.version {missed_result.level}\n\n"
        f"{missed_result.asks}\n"
    )
    yield f"## What was done\n\n{_RULES_OF_APPLICATION}\n"
    step_lines = (_one_line(step).replace("`", "'") for step in missed_result.steps)
    yield from (f"{step_number}. `{step}`" for step_number, step in enumerate(step_lines, 1))
    yardstick = missed_result.yardstick.replace("``", "`")
    yield f"\n## What was expected\n\n{yardstick}\n\n{_LAWS_TEXT}\n"
    yield "## What was seen\n"
    yield from _bullet_lines(missed_result.because)
    if missed_result.errors:
        yield "\nThe errors of the library:\n"
        yield from _bullet_lines(missed_result.errors)
    if missed_result.about:
        yield f"\nA known bug looks like this: {', '.join(missed_result.about)}."
    yield f"\n## Play it again\n\n    {repeat_command}\n"
    yield f"This takes txnsim {VERSION}, a simulator of a Kafka cluster, and the driver, a small"
    yield "program between the exam and the library (docs/exam.md in txnsim says more of it)."
    yield f"{_driver_file_links(source_names)}\n"
    yield "## Versions\n"
    yield from _bullet_lines(
        f"{version_name}: {version_value}"
        for version_name, version_value in _version_fields(run, missed_result).items()
    )
    yield "\n## What happened in the cluster\n"
    yield from (f"    {_one_line(line)}" for line in missed_result.story)
    if missed_result.recording:
        yield f"\n[{PAGE_FILE_NAME}]({PAGE_FILE_NAME}) shows it step by step."


def _bullet_lines(lines: Iterable[str]) -> Iterator[str]:
    return (f"- {_escape_markup(line)}" for line in lines)


def _one_line(driver_text: str) -> str:
    """Shorten a text of a driver or its library, and escape control characters."""
    shortened_text = (
        driver_text
        if len(driver_text) <= DRIVER_TEXT_CHARS_MAX
        else f"{driver_text[:DRIVER_TEXT_CHARS_MAX]} …"
        f" {len(driver_text) - DRIVER_TEXT_CHARS_MAX} more"
    )
    return escape_unprintable(shortened_text)


def _escape_markup(markup_text: str) -> str:
    """One line of text, with Markdown and HTML characters escaped."""
    single_spaced = " ".join(_one_line(markup_text).split())
    return _MARKUP_RE.sub(lambda match: f"&#{ord(match[0])};", single_spaced)


def _driver_file_links(source_names: list[str]) -> str:
    if not source_names:
        return "Its files are not in this folder."
    links = (f"[{file_name}]({DRIVER_FOLDER_NAME}/{file_name})" for file_name in source_names)
    return f"Its files: {', '.join(links)}."
