"""A folder per miss, ready to be reported: text, story, versions, and the recording as a page."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from txnsim.http.page.one_file import one_file
from txnsim.testing.exam.results import PAGE, Result, Sitting
from txnsim.trace.reading import recording
from txnsim.version import VERSION


def folders(sitting: Sitting, *, command: str) -> dict[str, bytes]:
    """Files by their paths, below a folder for each miss.

    Args:
        sitting: Whose misses.
        command: Which played them; ``--only`` and the level are added.

    Raises:
        ConfigError: A recording is too long for a page.
    """
    found: dict[str, bytes] = {}
    for miss in sitting.misses():
        own = miss.folder
        again = f"{command} --only {miss.situation} --transaction-version {miss.level}"
        found[f"{own}/report.md"] = "\n".join(_report(sitting, miss, again)).encode() + b"\n"
        found[f"{own}/story.txt"] = "\n".join(miss.story).encode() + b"\n"
        found[f"{own}/versions.json"] = msgspec.json.format(
            msgspec.json.encode(_versions(sitting, miss)), indent=1
        )
        if miss.recording:
            run = recording(miss.id, miss.recording.splitlines())
            found[f"{own}/{PAGE}"] = one_file([(miss.id, run)]).encode()
    return found


def _versions(sitting: Sitting, miss: Result) -> dict[str, object]:
    return {
        "library": sitting.library,
        "version": sitting.version,
        "language": sitting.language,
        "transactions": sitting.speaks,
        "kafka": sitting.kafka,
        "transaction.version": miss.level,
        "txnsim": VERSION,
    }


def _report(sitting: Sitting, miss: Result, again: str) -> Iterator[str]:
    yield f"# {miss.because[0]}"
    yield f"\n{miss.asks}\n"
    yield from (f"- {one}" for one in miss.because)
    yield "\n## Versions\n"
    yield from (f"- {name}: {value}" for name, value in _versions(sitting, miss).items())
    if miss.errors:
        yield "\n## What the library told\n"
        yield from (f"- {error}" for error in miss.errors)
    yield "\n## What happened in the cluster\n"
    yield from (f"    {line}" for line in miss.story)
    yield f"\n## Again\n\n    {again}\n"
    yield f"[{PAGE}]({PAGE}) shows it step by step." if miss.recording else ""
    if miss.about:
        yield f"It looks like {', '.join(miss.about)}."
