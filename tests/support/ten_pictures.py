# ruff: noqa: E501 - texts and SVG
"""docs/ten-pictures.md and its pictures: moments of runs, drawn as the page draws them.

What is in a picture comes from the trace of its run. Only its title and the sentence below it are
written here, and ``says`` names facts of the run that the sentence rests on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache, partial
from html import escape
from textwrap import wrap
from typing import Any, Final

import msgspec

from txnsim.trace.story import story
from txnsim.trace.trace_file import Recording
from txnsim_lab.scenario.driver_commands import PlannedStep
from txnsim_lab.scenario.runner import run_in_virtual_time
from txnsim_lab.scenario.stage import RunningStory
from txnsim_lab.scenario.teaching.lesson_solver import (
    PlayedError,
    recording_so_far,
    scenario_run_of,
)
from txnsim_lab.scenario.teaching.lessons import StoryRun
from txnsim_lab.scenario.teaching.trace_facts import fact
from txnsim_lab.trace.state import TraceState, state_at

PAGE: Final = "docs/ten-pictures.md"
FOLDER: Final = "docs/pictures"
WIDTH: Final = 860
CELL: Final = 86
LEFT: Final = 24
HAPPENED: Final = 3
"""How many sentences about past events a picture has."""


class Picture(msgspec.Struct, frozen=True, kw_only=True):
    """One of the ten pictures."""

    name: str
    title: str
    text: str
    story_run: StoryRun
    until: int
    tape: tuple[str, ...]
    """Partitions that are drawn."""
    says: Mapping[str, str]
    """Fact of the run -> its value, on which the text rests."""


def _z01(run_name: str, take_name: str = "armed") -> StoryRun:
    return StoryRun(scenario="z01", run=run_name, take=take_name)


PICTURES: Final = (
    Picture(
        name="two-sides",
        title="A transaction has two sides",
        text="Its coordinator keeps its state and the partitions that take part. Each partition knows from its own log alone what is open"
        " there. The two talk by requests, which may be late or lost.",
        story_run=_z01("TV2", "disarmed"), until=3, tape=("payments-0",),
        says={"state app": "Ongoing", "cause payments-0": "open transaction"},
    ),
    Picture(
        name="marker-owed",
        title="A decided transaction owes markers",
        text="The coordinator has decided to commit, and the producer was answered. Each partition still waits for its marker. Until it"
        " comes, readers do not pass. That is not a hang: the coordinator knows what it owes, and sends it again.",
        story_run=StoryRun(scenario="z21", run="TV2"), until=7, tape=("t-0",),
        says={"state app": "PrepareCommit", "cause t-0": "marker outstanding"},
    ),
    Picture(
        name="last-stable-offset",
        title="Readers stop at the last stable offset",
        text="A read_committed consumer reads up to the first open transaction of the partition. This holds for records of other producers, too. It sees no"
        " error, only nothing new.",
        story_run=StoryRun(scenario="z25", run="TV2"), until=6, tape=("t-0",),
        says={"lso t-0": "0", "withheld t-0": "2", "gets t-0": "nothing"},
    ),
    Picture(
        name="epoch",
        title="The epoch tells the present from the past",
        text="With transaction.version 2 each end raises the producer's epoch, at the coordinator and, by the marker, on the partition. A"
        " request of before carries the old one.",
        story_run=_z01("TV2", "disarmed"), until=8, tape=("payments-0",),
        says={"epoch app": "1", "known-epoch payments-0": "1"},
    ),
    Picture(
        name="verification",
        title="Verification asks before it appends",
        text="The late record of an aborted transaction arrives. Before its leader appends the first record of a transaction it asks the"
        " coordinator, which says no. The record is refused, and the log stays as it was.",
        story_run=_z01("V+"), until=11, tape=("payments-0",),
        says={"refused payments-0": "INVALID_PRODUCER_EPOCH", "cause payments-0": "nothing"},
    ),
    Picture(
        name="implicit-add",
        title="With version 2 a partition joins by its first record",
        text="The client has not sent AddPartitionsToTxn. The leader that gets the first record adds its partition at the coordinator,"
        " and appends after that. So no partition has a transaction that the coordinator never knew.",
        story_run=_z01("TV2", "disarmed"), until=5, tape=("payments-0",),
        says={"state app": "Ongoing", "markers payments-0": "nothing"},
    ),
    Picture(
        name="late-record",
        title="A late record looks like any other",
        text="The transaction was aborted. Its record is still held in the network. The coordinator has told the partition nothing but a"
        " marker, and no client waits for the record any more.",
        story_run=_z01("V-"), until=9, tape=("payments-0",),
        says={"cause payments-0": "nothing", "markers payments-0": "ABORT", "known-epoch payments-0": "0"},
    ),
    Picture(
        name="hang",
        title="A hanging transaction has no owner",
        text="Without verification the late record is appended, and opens a transaction behind the marker. The coordinator has ended it and"
        " will send no other marker. No timeout ends it.",
        story_run=_z01("V-"), until=12, tape=("payments-0",),
        says={"cause payments-0": "hanging transaction", "withheld payments-0": "3"},
    ),
    Picture(
        name="repair",
        title="A second marker repairs it",
        text="An operator finds the transaction and has the marker written that is missing, here an ABORT. It ends what is open, and readers"
        " go on. What was decided decides which marker it has to be.",
        story_run=_z01("V-"), until=15, tape=("payments-0",),
        says={"markers payments-0": "ABORT, ABORT", "cause payments-0": "nothing", "gets payments-0": "2, 3"},
    ),
    Picture(
        name="positions",
        title="A group's positions take part, too",
        text="An application that reads, works and writes commits its position in the same transaction. The position is pending until the"
        " marker comes to the partition of __consumer_offsets. So a hang there holds a whole group.",
        story_run=StoryRun(scenario="z26", run="V+/fixed"), until=5, tape=(),
        says={"state app": "Ongoing"},
    ),
)  # fmt: skip


# Runs


class _EndingPace:
    """A pace that ends the story before a given step."""

    def __init__(self, number: int) -> None:
        self._number = number
        self.recording: Recording | None = None

    async def wait_before_step(self, running_story: RunningStory, step: PlannedStep) -> None:
        if step.number == self._number:
            self.recording = recording_so_far(running_story)
            raise PlayedError


@cache
def run_of(name: str) -> Recording:
    """Play a picture's story up to its moment, and return the recording."""
    picture = next(picture for picture in PICTURES if picture.name == name)
    pace = _EndingPace(picture.until)
    with suppress(PlayedError):
        run_in_virtual_time(scenario_run_of(picture.story_run), pace=pace)
    assert pace.recording is not None, name
    return pace.recording


# The page


def pages() -> dict[str, Callable[[], str]]:
    """Every generated file -> the function that makes it."""
    picture_pages = {
        f"{FOLDER}/ten-{picture.name}.svg": partial(svg, picture) for picture in PICTURES
    }
    return {PAGE: page, **picture_pages}


def page() -> str:
    parts = [
        "<!-- Generated by `python -m tests.docs --write`; edit tests/support/ten_pictures.py instead. -->",
        "# Transactions in ten pictures",
        "Each picture is a moment of a run, drawn by a program from its trace, as the page draws it. Above stands what the"
        " coordinator believes, below what the partition believes, offset by offset. To play them yourself:"
        " [the lessons](see-it.md#lessons). The rules in words: [transactions.md](transactions.md).",
    ]  # fmt: skip
    for picture_number, picture in enumerate(PICTURES, 1):
        story_run = picture.story_run
        parts += [
            f"## {picture_number}. {picture.title}",
            f"![{picture.title}](pictures/ten-{picture.name}.svg)",
            picture.text,
            f"`txnsim scenario run {story_run.scenario} --mode '{story_run.run}' --{story_run.take}`, before step {picture.until + 1}.",
        ]
    return "\n\n".join(parts) + "\n"


# Drawing

STYLE: Final = """
text{font:14px Verdana,'DejaVu Sans',sans-serif;fill:#15191d} .small{font-size:12px;fill:#4d565f} .b{font-weight:bold}
.paper{fill:#fff;stroke:#c3c9cf} .box{fill:#f1f3f5;stroke:#005a8f;stroke-width:1.5} .plain{fill:#fff;stroke:#15191d}
.open{fill:url(#open);stroke:#15191d;stroke-dasharray:5 3;stroke-width:2} .hanging{fill:url(#hang);stroke:#a83c00;stroke-width:3.5}
.committed{fill:#d9efe7;stroke:#15191d} .aborted{fill:#e3e6e9;stroke:#15191d} .marker{fill:#f1f3f5;stroke:#15191d;stroke-width:2}
.label{fill:#fff} .lso{stroke:#005a8f;stroke-width:3} .strike{stroke:#15191d} .o{stroke:#0072b2;stroke-width:2} .h{stroke:#d55e00;stroke-width:3}
.bg{fill:#fff}
@media (prefers-color-scheme:dark){text{fill:#e8eaed} .small{fill:#a9b2bb} .paper,.plain,.label,.bg{fill:#14171a} .paper{stroke:#454d55}
.box,.marker{fill:#1f2429} .box,.lso{stroke:#56b4e9} .plain,.open,.committed,.aborted,.marker,.strike{stroke:#e8eaed} .hanging{stroke:#ff9a5c}
.committed{fill:#0f3a2d} .aborted{fill:#2c3238} .o{stroke:#56b4e9} .h{stroke:#ff9a5c}}
"""
DEFS: Final = (
    '<defs><pattern id="open" width="8" height="8" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="bg" width="8"'
    ' height="8"/><line class="o" x1="0" y1="0" x2="0" y2="8"/></pattern><pattern id="hang" width="7" height="7" patternUnits="userSpaceOnUse"'
    ' patternTransform="rotate(-45)"><rect class="bg" width="7" height="7"/><line class="h" x1="0" y1="0" x2="0" y2="7"/></pattern></defs>'
)  # fmt: skip


def svg(picture: Picture) -> str:
    recording = run_of(picture.name)
    state = state_at(recording.events, recording.nodes, level=recording.level)
    body: list[str] = []
    y = 58
    for name, entry in sorted(state.transactions.items()):
        if entry["partitions"] or entry["state"] != "Empty" or entry["epoch"] > 0:
            y = _coordinator(body, y, state, name, entry)
    for partition_name in picture.tape:
        y = _partition(body, y, recording, state, partition_name)
    for group, offset in sorted(state.offsets.items()):
        body.append(_text(LEFT, y + 16, f"{group}: position {offset}, pending"))
        y += 28
    sentences = [
        sentence
        for sentence in story(recording.events, recording.nodes)
        if not sentence.is_narrated
    ]
    body.append(_text(LEFT, y + 12, "What happened last", "b"))
    y += 20
    for sentence in sentences[-HAPPENED:]:
        for line in wrap(f"{sentence.who}: {sentence.text}", 112):
            y += 17
            body.append(_text(LEFT, y, line, "small"))
    height = y + 20
    head_text = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img"'
        f' aria-labelledby="t d">\n<title id="t">{escape(picture.title)}</title>\n<desc id="d">{escape(picture.text)}</desc>\n'
        f"<style>{STYLE}</style>\n{DEFS}\n"
        f'<rect class="paper" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>\n'
    )  # fmt: skip
    title = (
        f'<text x="{LEFT}" y="34" class="b" style="font-size:18px">{escape(picture.title)}</text>'
    )
    return head_text + "\n".join([title, *body]) + "\n</svg>\n"


def _coordinator(
    body: list[str], y: int, state: TraceState, name: str, entry: Mapping[str, Any]
) -> int:
    owed_parts = [
        f"owes {key.rpartition(' ')[2]} a {'COMMIT' if marker['committed'] else 'ABORT'} marker"
        for key, marker in state.owed.items()
        if key.startswith(f"{name}/")
    ]
    partitions = ", ".join(entry["partitions"]) or "no partition"
    lines = [
        f"{name}: {entry['state']}, producer {entry['pid']}, epoch {entry['epoch']}, with {partitions}",
        *owed_parts,
    ]
    height = 34 + 20 * len(lines)
    body.append(f'<rect class="box" x="{LEFT}" y="{y}" width="{WIDTH - 2 * LEFT}" height="{height}" rx="6"/>')  # fmt: skip
    body.append(_text(LEFT + 14, y + 22, "The coordinator believes", "b"))
    body.extend(_text(LEFT + 14, y + 44 + 20 * n, line) for n, line in enumerate(lines))
    return y + height + 18


def _partition(
    body: list[str], y: int, recording: Recording, state: TraceState, partition_name: str
) -> int:
    body.append(_text(LEFT, y + 14, f"The partition believes: {partition_name}", "b"))
    cells = list(_cells(recording, state, partition_name))
    top = y + 42
    for n, (offset, kind, label, detail) in enumerate(cells):
        x = LEFT + n * CELL
        body.append(_text(x + CELL // 2, top - 6, str(offset), "small", is_centred=True))
        body.append(f'<rect class="{kind}" x="{x}" y="{top}" width="{CELL - 4}" height="54"/>')
        if kind in ("open", "hanging"):
            body.append(f'<rect class="label" x="{x + 5}" y="{top + 8}" width="{CELL - 14}" height="38" rx="3"/>')  # fmt: skip
        body.append(_text(x + CELL // 2 - 2, top + 24, label, is_centred=True))
        body.append(_text(x + CELL // 2 - 2, top + 42, detail, "small", is_centred=True))
    stable_offset = int(fact(recording, f"lso {partition_name}"))
    cells_below = sum(offset < stable_offset for offset, *_ in cells)
    x = LEFT + cells_below * CELL - 2
    body.append(f'<line class="lso" x1="{x}" y1="{top - 4}" x2="{x}" y2="{top + 66}"/>')
    got_offsets, withheld_count = (
        fact(recording, f"gets {partition_name}"),
        fact(recording, f"withheld {partition_name}"),
    )
    body.append(_text(max(x, LEFT), top + 82, f"last stable offset {stable_offset}", "small"))
    summary = f"Consumers get {f'offsets {got_offsets}' if got_offsets != 'nothing' else 'nothing'}; {withheld_count} withheld."
    body.append(
        _text(
            LEFT,
            top + 104,
            f"{summary} Readers are held back by: {fact(recording, f'cause {partition_name}')}.",
        )
    )
    return top + 128


def _cells(
    recording: Recording, state: TraceState, partition_name: str
) -> Iterator[tuple[int, str, str, str]]:
    """Offset, kind and two words of each record and marker, in order."""
    log = state.logs[partition_name]
    payloads = [
        event.d for event in recording.events if event.k in ("log.append", "marker.written")
    ]
    data_by_offset = {
        payload_data.get("base", payload_data.get("offset")): payload_data
        for payload_data in payloads
        if isinstance(payload_data, Mapping) and payload_data["tp"] == partition_name
    }
    markers = {offset: data for offset, data in data_by_offset.items() if "committed" in data}
    is_hanging = fact(recording, f"cause {partition_name}") == "hanging transaction"
    for base_offset, data in sorted(data_by_offset.items()):
        if base_offset in markers:
            yield (
                base_offset,
                "marker",
                "COMMIT" if data["committed"] else "ABORT",
                f"epoch {data['epoch']}",
            )
            continue
        end = next((marker for marker_offset, marker in sorted(markers.items()) if marker_offset > base_offset and marker["pid"] == data["pid"]), None)  # fmt: skip
        if not data["txn"]:
            kind, label = "plain", "no txn"
        elif end is None:
            kind = "hanging" if is_hanging and base_offset >= log["lso"] else "open"
            label = "HANGS" if kind == "hanging" else "open"
        else:
            kind = label = "committed" if end["committed"] else "aborted"
        for offset in range(base_offset, data["last"] + 1):
            yield offset, kind, "record", label


def _text(x: int, y: int, text: str, kind: str = "", *, is_centred: bool = False) -> str:
    anchor = ' text-anchor="middle"' if is_centred else ""
    class_attribute = f' class="{kind}"' if kind else ""
    return f'<text x="{x}" y="{y}"{class_attribute}{anchor}>{escape(text)}</text>'
