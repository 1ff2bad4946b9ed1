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
  const { LineReader, lineEndOf } = __page["lines.js"];
  const bytes = new TextEncoder().encode(trace);
  const lines = new LineReader(bytes, (kind) => kind !== "msg.send");
  const found = [];
  for (let from = 0; from < bytes.length; from = lineEndOf(bytes, from) + 1) {
    const seen = lines.glance(from);
    const { lineEnd } = lines;
    if (seen && lineEnd !== lineEndOf(bytes, from)) throw new Error(`ends at ${lineEnd}`);
    found.push(seen && JSON.stringify(seen));
  }
  return found;
}"""
"""What is seen of each line of a trace: as JSON, null where the line is different."""
ORDER: Final = ("i", "t", "n", "l", "p", "k", "tx", "d")


def line(**changed_fields: Any) -> str:
    """An event as the trace's writer writes it."""
    default_event = {
        "i": 7,
        "t": 70,
        "n": 1,
        "l": 8,
        "p": [3, 6],
        "k": "log.append",
        "tx": "app/7:0",
    }
    event = default_event | {"d": {"tp": "t-0", "base": 5}} | changed_fields
    return json.dumps(
        {name: event[name] for name in ORDER if event[name] is not None},
        separators=(",", ":"),
        ensure_ascii=False,
    )


def glance(page: Page, *lines: str, end: str = "\n") -> list[dict[str, Any] | None]:
    glances = page.evaluate(GLANCE, "\n".join(lines) + end)
    return [None if glance_text is None else json.loads(glance_text) for glance_text in glances]


@pytest.fixture
def page(server: TxnsimServer, new_page: Any) -> Page:
    """A page whose modules the test calls."""
    new_tab: Page = new_page(server.http)
    return new_tab


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
        glances = glance(page, *(line(d=payload) for payload in payloads))
        assert [glance_seen and glance_seen["d"] for glance_seen in glances] == payloads
    assert {(glance_seen or {})["i"] for glance_seen in glances} == {7}


def test_head_of_an_event_is_seen_and_a_payload_only_where_it_is_wanted(page: Page) -> None:
    (glance_seen,) = glance(page, line(i=0, t=10**14, n=12, p=None))
    assert glance_seen == {
        "i": 0, "t": 10**14, "n": 12, "k": "log.append", "tx": "app/7:0", "node": "",
        "d": {"tp": "t-0", "base": 5},
    }  # fmt: skip
    (glance_seen,) = glance(page, line(tx=None, d=None))
    assert glance_seen == {"i": 7, "t": 70, "n": 1, "k": "log.append", "tx": "", "node": ""}
    (glance_seen,) = glance(page, line(k="msg.send", d={"broken": "…"}).replace("broken", '"'))
    assert glance_seen == {"i": 7, "t": 70, "n": 1, "k": "msg.send", "tx": "", "node": ""}


def test_texts_of_the_same_hash_are_kept_apart(page: Page) -> None:
    texts = ["AaAa", "BBBB", "AaBB", "BBAa", "AaAa"]
    glances = glance(page, *(line(tx=text) for text in texts))
    assert [glance_seen and glance_seen["tx"] for glance_seen in glances] == texts


def test_a_line_that_is_different_is_left_to_json(page: Page) -> None:
    usual_line = line()
    different = [
        '{"k":"end","events":7,"hash":""}',
        "",
        "{}",
        usual_line.replace('"i":7', '"i": 7'),
        usual_line.replace('"i":7', '"i":1234567890123456'),
        usual_line.replace('"k":', '"kind":'),
        line(k='a"b'),
        line(tx="ü"),
        usual_line[:-1] + ',"w":0}',
        line(d=None)[:-1] + ',"w":0}',
    ]
    for different_line in different:
        assert glance(page, usual_line, different_line, usual_line)[1] is None, different_line


def test_a_line_may_end_with_the_trace_and_none_is_read_beyond_it(page: Page) -> None:
    assert glance(page, line(), end="") == glance(page, line())
    for length in range(1, len(line(d=None))):
        assert glance(page, line(d=None)[:length], end="") == [None], length
