from __future__ import annotations

import base64
import gzip
import json
import re
from typing import Any

import pytest

from tests.support.traces import told_run
from txnsim.errors import ConfigError
from txnsim_lab.http.page._files import digest, files
from txnsim_lab.http.page.one_file import EVENTS_MAX, one_file, remark


def part(page: str, name: str) -> bytes:
    found = re.search(rf'<script type="text/plain" id="{name}">([^<]*)</script>', page)
    assert found is not None
    return gzip.decompress(base64.b64decode(found[1]))


def contents(page: str) -> dict[str, Any]:
    return dict(json.loads(part(page, "runs")))


def test_it_holds_the_page_the_trace_and_what_is_said_of_it() -> None:
    run = told_run()
    page = one_file([("z01", run)])
    inside = contents(page)
    assert inside["remark"] == remark(redact=False)
    (one,) = inside["runs"]
    assert one["title"] == "z01"
    assert part(page, "trace-0") == run.to_lines()
    causes = [part["cause"] for moment in one["moments"] for part in moment["partitions"]]
    assert {"nothing", "hanging transaction"} <= set(causes)


def test_no_address_leads_out_of_the_file() -> None:
    page = one_file([("z01", told_run())])
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    assert "default-src 'none'" in policy[1]
    assert "'self'" not in policy[1]
    inline = re.search(r'<script type="module">(.*?)</script>', page, re.DOTALL)
    assert inline is not None
    assert f"script-src {digest(inline[1].encode())};" in policy[1]


def test_a_redacted_file_holds_no_value_and_says_so() -> None:
    run = told_run()
    assert b"after-1" in part(one_file([("z01", run)]), "trace-0")
    page = one_file([("z01", run)], redact=True)
    assert remark(redact=True) in page
    assert b"after-1" not in part(page, "trace-0")
    assert "after-1" not in json.dumps(contents(page))


def test_a_run_that_the_page_can_not_hold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    run = told_run()
    monkeypatch.setattr("txnsim_lab.http.page.one_file.EVENTS_MAX", len(run.events) - 1)
    with pytest.raises(ConfigError, match=r"z01: \d+ events, .* at most \d+: read it with"):
        one_file([("z01", run)])


def test_the_page_holds_as_many_events_as_its_book() -> None:
    found = re.search(rb"EVENTS_MAX = ([\d_]+);", files()["book.js"])
    assert found is not None
    assert int(found[1].replace(b"_", b"")) == EVENTS_MAX


def test_it_tells_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("txnsim_lab.trace.moments.TOLD_EVERY", 100)
    told: list[str] = []
    one_file([("z01", run := told_run())], tell=told.append)
    assert told[0] == f"z01: 100 of {len(run.events)} events explained …"
    assert told[-1] == "packing the events …"


def test_a_title_is_text() -> None:
    assert "<b>" not in one_file([("<b>", told_run())]).partition("</title>")[0]
