"""What readers say, held against what is expected of them."""

from __future__ import annotations

import pytest

from txnsim.client._positions import committed_positions
from txnsim.types import TopicPartition
from txnsim_lab.exam.readers import GROUP, Said, directories, expected, library, misses

WANTED = expected(on_disk=True)


def right(**more: object) -> list[Said]:
    """A reader that says the truth of all topics, but for ``open``."""
    said = [
        Said(topic=one.topic, values=one.values, position=one.stable, end=one.stable, lag=0)
        for one in WANTED
        if one.topic != "open"
    ]
    return [*said, *([Said(topic="open", **more)] if more else [])]  # type: ignore[arg-type]


def test_who_says_the_truth_misses_nothing() -> None:
    assert list(misses(WANTED, right(values=("a",), end=2))) == []


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        ({"values": ("a", "open", "b")}, "open: values a op b; expected: a. A transaction is open"),
        ({"end": 5}, "open: end 5; expected: 2"),
        ({"lag": 3}, "open: lag 3; expected: 0"),
        ({}, "open: nothing is said of it"),
    ],
)
def test_what_is_wrong_is_named(said: dict[str, object], wrong: str) -> None:
    (found,) = misses(WANTED, right(**said))
    assert found.startswith(wrong)


async def test_a_group_has_read_all_topics() -> None:
    async with library() as kafka:
        cluster = (await kafka.rebuilt.admin()).cluster
        places = [TopicPartition(one.topic, 0) for one in expected(on_disk=False)]
        positions = await committed_positions(cluster, GROUP, places)
    assert [positions[one] for one in places] == [one.stable for one in expected(on_disk=False)]


async def test_directories_have_every_topic_and_one_that_is_cut_short() -> None:
    files = await directories()
    logs = {path.split("/")[1]: len(data) for path, data in files.items() if path.endswith(".log")}
    assert {f"{one.topic}-0" for one in WANTED} <= logs.keys()
    cut = files["broker-1/cut-short-0/00000000000000000000.log"]
    last = cut.rindex(b"\x00" * 7 + b"\x03")
    said = int.from_bytes(cut[last + 8 : last + 12])
    assert len(cut) - last - 12 < said, "the last batch says more bytes than there are"
