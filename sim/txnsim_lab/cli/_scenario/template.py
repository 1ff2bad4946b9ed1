"""``txnsim scenario new``: the first file of an author. It is sound, it runs, and its comments say
what to change.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from txnsim.errors import ConfigError
from txnsim.files import write_whole

_NAME_RE: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")

TEMPLATE: Final = """\
# A story about a transaction. Every field: docs/writing-scenarios.md.
# Check it: txnsim scenario check NAME.yaml      Run it: txnsim scenario run NAME.yaml
name: NAME
title: The answer to a commit is late
goal: See that a transaction is decided before its producer hears of it.
method: The answer to EndTxn is held on its way to the producer until everybody has looked.

# The cluster: topics with their numbers of partitions. `brokers: 1` makes it smaller.
topics:
  orders: 1

# Who takes part, beside the reader, the bystander and the operator that are always there.
# `plays: wire` sends single requests, in any order; `plays: application` is a client library.
actors:
  shop: {plays: wire, transactional-id: shop}

# In which worlds it is played, and what it must come to in each of them: `healthy`, or the kinds of
# anomalies that the judges must find (docs/checkers.md). A first run shows what they find.
#   V-   no verification (before Kafka 3.6)      V+   verification, transaction.version 1
#   TV2  transactions v2 (Kafka 4.0 and later)
runs:
  V+: {mode: V+, verdict: healthy}
  TV2: {mode: TV2, verdict: healthy}

# What happens, in order. Nothing sleeps: a step waits until its condition holds.
# `only: armed` keeps a step for the run with the fault; without the fault it is left out.
steps:
  - call: {who: shop, do: init-producer-id}
  - say: The shop writes an order in a transaction.
    call: {who: shop, do: begin}
  - call: {who: shop, do: add-partitions, partitions: orders-0}
  - call: {who: shop, do: produce, partition: orders-0, value: first, offset: 0}

  # A fault: where (docs/fault-points.md), whose requests, and what happens to them. `hold` waits
  # for a `release`; `arm` takes any other action, as in {id: x, point: …, action: {do: drop}}.
  - say: The answer to its commit will be held.
    hold: {id: late-answer, point: client.response, api: EndTxn, transactional_id: shop}
  - call: {who: shop, do: commit, background: commit} # goes on at once; awaited below
  - wait-until: {struck: late-answer}

  - say: The coordinator has decided all the same, and readers have the record.
    wait-until: {transaction: {id: shop, is: [CompleteCommit, Empty]}}
  - wait-until: {marker: orders-0}
  - call: {who: reader, do: read, partition: orders-0, reads: [first]}

  - say: Now the shop hears of it.
    release: late-answer
  - await: commit
"""


def write(name: str, directory: Path | None = None) -> Path:
    """Write the file for a story of that name.

    Raises:
        ConfigError: That is no name, or there is such a file already.
    """
    name = name.removesuffix(".yaml")
    if not _NAME_RE.fullmatch(name):
        raise ConfigError(f"{name}: expected a name in lower case with hyphens, as in late-answer")
    path = (directory or Path()) / f"{name}.yaml"
    if path.exists():
        raise ConfigError(f"{path}: is there already; choose another name")
    write_whole(path, TEMPLATE.replace("NAME", name))
    return path
