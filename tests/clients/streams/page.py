"""The part of docs/clients.md that is about kills of Kafka Streams."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.clients.streams.kept import KillRun, load
from tests.clients.streams.points import POINTS, Point

Table = tuple[tuple[str, ...], list[tuple[str, ...]]]
"""Head and rows."""

KILLS: Final = """\
Two instances of an application with `exactly_once_v2` count words: repartition topic, state store
with changelog, output topic. Over and over an instance (SIGKILL) or a broker is killed, each time
at a named point: a fault rule of the control port holds exactly the request that the point's name
says, the coordinator is asked whether the transaction is in the state that belongs to it, and then
the victim dies and is started again. Before the next kill every word must have come out with the
next count, 1, 2, 3 and so on, once, and at the end a second reader, the group's positions and the
transactions are looked at as well. What feeds and what reads is librdkafka, not the application's
own client. On a real Kafka 4.3.1, without a kill, the same application is exact by the same
judge.

```
python -m tests.clients.streams.kills --level 2                 # 20 kills
python -m tests.clients.streams.kills --level 2 --kills 60 --seed 7
python -m tests.clients.streams.kills --level 1 --point "before EndTxn"
python -m tests.clients.streams.kills --level 0 --plan          # which ones, without doing it
python -m tests.clients.streams.kills --level 2 --target apache # no kills: a real Kafka's counts
```

A seed gives the same plan again. How often each point was struck in the last run that was kept
(`--write`), and all counts were exact:"""


def kills() -> Table:
    """The table of kills: a row for each point, a column for each level."""
    stored_runs = load()
    level_headings = tuple(f"at {level}" for level in sorted(stored_runs))
    rows = [
        (point.stage, point.name, point.victim, *_cells(point, stored_runs)) for point in POINTS
    ]
    rows.append(
        ("", "**all**", "", *(f"{sum(run.kills.values())}" for _, run in _by_level(stored_runs)))
    )
    return ("When", "Point", "Killed", *level_headings), rows


def _cells(point: Point, stored_runs: Mapping[int, KillRun]) -> list[str]:
    return [
        str(run.kills.get(point.name, 0)) if level in point.levels else "–"
        for level, run in _by_level(stored_runs)
    ]


def _by_level(stored_runs: Mapping[int, KillRun]) -> list[tuple[int, KillRun]]:
    return sorted(stored_runs.items())
