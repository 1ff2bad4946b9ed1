"""Draws stories for ``stories.py draw``: one partition, members that take turns, no race.

A member's fetch is over before anybody else does anything: after a poll that got nothing the story
waits as long as a fetch may.
"""

from __future__ import annotations

import random
from collections.abc import Iterator


def draw_story(seed: int) -> Iterator[str]:
    random_source = random.Random(seed)
    yield f"story drawn-{seed}"
    yield f"topic t 1{random_source.choice(('', ' compression.type=gzip'))}"
    configs = {
        "auto.offset.reset": "earliest",
        "delivery.count.limit": random_source.choice("2345"),
        "isolation.level": random_source.choice(
            ("read_committed", "read_committed", "read_uncommitted")
        ),
        "partition.max.record.locks": random_source.choice(("100", "2000")),
    }
    yield "config g " + " ".join(
        f"share.{config_name}={config_value}" for config_name, config_value in configs.items()
    )
    members = []
    for member_name in "ab"[: random_source.choice((1, 1, 2))]:
        max_records = random_source.choice((2, 5, 7, 500))
        mode = random_source.choice(("record_limit", "batch_optimized"))
        options = f"share.acknowledgement.mode=explicit max.poll.records={max_records}"
        yield f"member {member_name} g {options} share.acquire.mode={mode}"
        yield f"subscribe {member_name} t"
        members.append(member_name)
    yield "send p t-0 1"
    for member_name in members:  # each has joined, and waits for nothing
        yield f"once {member_name} 4000"
        yield f"ack {member_name} accept"
        yield f"commit {member_name}"
        yield "wait 700"
    open_ids: set[str] = set()
    for _ in range(random_source.randrange(6, 16)):
        match random_source.choice(
            ("send", "send", "transaction", "take", "take", "take", "delete")
        ):
            case "send":
                yield f"send p t-0 {random_source.choice((1, 2, 3, 6, 40))}"
            case "transaction":
                member_name = random_source.choice("xy")
                if member_name in open_ids:
                    open_ids.remove(member_name)
                    yield f"{random_source.choice(('commit', 'abort'))}-txn {member_name}"
                    yield "wait 300"
                else:
                    open_ids.add(member_name)
                    yield f"begin {member_name}"
                    yield f"send {member_name} t-0 {random_source.choice((1, 2, 5, 60))}"
            case "delete" if random_source.random() < 0.3:
                yield f"delete-records t-0 {random_source.randrange(1, 5)}"
            case "take":
                member_name = random_source.choice(members)
                yield f"once {member_name} 1500"
                letters = "".join(
                    random_source.choice("aaarrj") for _ in range(random_source.randrange(1, 6))
                )
                yield f"ack-by {member_name} {letters}"
                yield f"commit {member_name}"
                yield "wait 700"
    yield "offsets g"
    for member_name in members:
        yield f"callbacks {member_name}"
        yield f"close {member_name}"
    yield "offsets g"
