"""``lines.js`` reads the lines of a trace without making an object of each. What it answers is what
``JSON.parse`` says, or that the line is different.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.support.txnsim_server import TxnsimServer

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

GLANCE: Final = """(trace) => {
  const { Lines, endOf } = __page["lines.js"];
  const bytes = new TextEncoder().encode(trace);
  const lines = new Lines(bytes, (kind) => kind !== "msg.send");
  const found = [];
  for (let from = 0; from < bytes.length; from = endOf(bytes, from) + 1) {
    const seen = lines.glance(from);
    if (seen && lines.end !== endOf(bytes, from)) throw new Error(`ends at ${lines.end}`);
    found.push(seen && JSON.stringify(seen));
  }
  return found;
}"""
"""What is seen of each line of a trace: as JSON, null where the line is different."""
ORDER: Final = ("i", "t", "n", "l", "p", "k", "tx", "d")


def line(**changed: Any) -> str:
    """An event as the trace's writer writes it."""
    whole = {"i": 7, "t": 70, "n": 1, "l": 8, "p": [3, 6], "k": "log.append", "tx": "app/7:0"}
    one = whole | {"d": {"tp": "t-0", "base": 5}} | changed
    return json.dumps(
        {name: one[name] for name in ORDER if one[name] is not None},
        separators=(",", ":"),
        ensure_ascii=False,
    )


def glance(page: Page, *lines: str, end: str = "\n") -> list[dict[str, Any] | None]:
    found = page.evaluate(GLANCE, "\n".join(lines) + end)
    return [None if one is None else json.loads(one) for one in found]


@pytest.fixture
def page(server: TxnsimServer, new_page: Any) -> Page:
    """A page, for its modules."""
    one: Page = new_page(server.http)
    return one


def test_what_is_seen_is_what_json_says(page: Page) -> None:
    payloads: list[object] = [
        {},
        {"tp": "t-0", "base": 5},
        {"tp": "t-1", "base": 0},  # the same shape
        {"base": 5, "tp": "t-0"},  # another order
        {"tp": "t-0", "base": 5, "txn": True},  # one more
        {"tp": "t-0"},  # one less
        {"a": -1, "b": None, "c": False, "d": [], "e": [1, "x", [2]], "f": ""},
        {"a": 1.5, "b": 1e30, "c": 2**53},
        {"tp": 'a"b\\c\n', "base": 5},
        {"tp": "ü 値 😀", "base": 5},
        {"a": {"b": {"c": [{"d": 1}]}}},
        {"tp": "}", "base": 5},
    ]
    for _ in range(3):  # the second time its shapes are known
        seen = glance(page, *(line(d=one) for one in payloads))
        assert [one and one["d"] for one in seen] == payloads
    assert {(one or {})["i"] for one in seen} == {7}


def test_head_of_an_event_is_seen_and_a_payload_only_where_it_is_wanted(page: Page) -> None:
    (seen,) = glance(page, line(i=0, t=10**14, n=12, p=None))
    assert seen == {
        "i": 0, "t": 10**14, "n": 12, "k": "log.append", "tx": "app/7:0", "node": "",
        "d": {"tp": "t-0", "base": 5},
    }  # fmt: skip
    (seen,) = glance(page, line(tx=None, d=None))
    assert seen == {"i": 7, "t": 70, "n": 1, "k": "log.append", "tx": "", "node": ""}
    (seen,) = glance(page, line(k="msg.send", d={"broken": "…"}).replace("broken", '"'))
    assert seen == {"i": 7, "t": 70, "n": 1, "k": "msg.send", "tx": "", "node": ""}


def test_texts_of_the_same_hash_are_kept_apart(page: Page) -> None:
    same = ["AaAa", "BBBB", "AaBB", "BBAa", "AaAa"]
    seen = glance(page, *(line(tx=one) for one in same))
    assert [one and one["tx"] for one in seen] == same


def test_a_line_that_is_different_is_left_to_json(page: Page) -> None:
    whole = line()
    different = [
        '{"k":"end","events":7,"hash":""}',
        "",
        "{}",
        whole.replace('"i":7', '"i": 7'),
        whole.replace('"i":7', '"i":1234567890123456'),
        whole.replace('"k":', '"kind":'),
        line(k='a"b'),
        line(tx="ü"),
        whole[:-1] + ',"w":0}',
        line(d=None)[:-1] + ',"w":0}',
    ]
    for one in different:
        assert glance(page, whole, one, whole)[1] is None, one


def test_a_line_may_end_with_the_trace_and_none_is_read_beyond_it(page: Page) -> None:
    assert glance(page, line(), end="") == glance(page, line())
    for length in range(1, len(line(d=None))):
        assert glance(page, line(d=None)[:length], end="") == [None], length
