"""The views beside the stage: lanes, producers, the state machine, the cluster, the zoo, events."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.conformance.streams_plays import Plays, settle, simple
from tests.lab.browser.test_stage import play_run
from tests.support.txnsim_server import TxnsimServer

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

WIDE = 203


def texts(page: Page, selector: str) -> str:
    """All texts of a drawing."""
    return " | ".join(page.locator(selector).all_text_contents())


def test_lanes_are_read_as_a_picture(server: TxnsimServer, new_page: Any) -> None:
    page = new_page(server.http)
    play_run(page, "z01", "V-")
    page.keyboard.press("4")
    page.wait_for_selector(".lane-names")
    names = page.locator(".lane-names div").all_inner_texts()
    # Clients, those of others as well, then coordinators, partitions, brokers.
    assert names[:4] == [
        "late-producer",
        "reader",
        "coordinator · broker 2",
        "payments-0 · broker 1",
    ]
    arrows = texts(page, ".arrow-of > text")
    assert [arrow for arrow in ("EndTxn", "ABORT marker", "Fetch") if arrow not in arrows] == []
    assert "Metadata" not in arrows
    assert page.locator(".arrow-of path[marker-end]").count() > 5
    assert texts(page, ".bar-of > svg").startswith("Empty | Ongoing | PrepareAbort | CompleteAbort")
    assert "app/1 open: hanging" in texts(page, ".bar-of.hangs")
    held_arrow = page.locator(".held-of").first
    assert "Produce held by late-produce" in str(held_arrow.text_content())
    # Half the way, the wait, and the rest of the way after the release.
    assert held_arrow.locator("path").count() == 3
    assert "EndTxn" in texts(page, ".arrow-of title")
    assert " ms" in texts(page, ".tick")
    page.check("#housekeeping")
    page.wait_for_function(
        "() => document.querySelector('.lane-box svg').textContent.includes('Metadata')"
    )
    wide_box = page.locator(".lane-box svg").first.bounding_box()
    page.focus(".lane-box")
    page.keyboard.press("-")
    page.wait_for_function(
        f"() => document.querySelector('.lane-box svg').clientWidth < {wide_box['width'] - 100}"
    )
    # Held up to the cursor.
    page.keyboard.press("1")
    page.get_by_role("button", name="No answer comes, and it gives up").click()
    page.keyboard.press("4")
    assert page.locator(".held-of").first.locator("path").count() == 2


def test_a_view_with_nothing_in_it_says_what_will_stand_there_and_leads_to_it(
    fresh_server: TxnsimServer, new_page: Any
) -> None:
    page = new_page(fresh_server.http, is_unfolded=False)
    page.wait_for_selector(".link-state.live")
    for key, title in (("2", "No transactional id yet"), ("3", "No producer has written yet")):
        page.keyboard.press(key)
        page.wait_for_selector(f".nothing h2:has-text('{title}')")
        assert page.locator(".nothing p").first.inner_text().endswith(".")
    page.click(".nothing #practise")
    page.wait_for_selector(".step-of:has-text('step 1 of 6')")
    page.keyboard.press("l")  # at its first step nobody has written yet
    page.keyboard.press("3")
    page.wait_for_selector("table.producers")


def test_producers_stand_in_two_halves_and_every_move_of_the_machine_is_drawn(
    server: TxnsimServer, new_page: Any
) -> None:
    page = new_page(server.http)
    play_run(page, "z01", "V-")
    page.keyboard.press("3")
    title = page.inner_text("tr.title.hangs")
    assert title.startswith("producer 0: A transaction of app hangs on payments-0: readers get")
    halves = page.locator("thead th[scope=colgroup]").all_inner_texts()
    assert halves == ["the partition says", "the coordinator says"]
    page.keyboard.press("2")
    assert page.locator("path.edge").count() == 19
    assert page.get_attribute("path.edge.last", "data-move") == "CompleteAbort Empty"
    page.keyboard.press("5")
    page.select_option("#least", "2")
    page.wait_for_function(
        "() => /^\\d\\d of/.test(document.querySelector('.bar [role=status]').textContent)"
    )
    kinds_shown = set(page.locator(".row b").all_inner_texts())
    assert "log.append" not in kinds_shown
    assert {"fault.release", "txn.complete", "pid.open"} <= kinds_shown
    page.keyboard.press("8")
    page.wait_for_selector("table.zoo")
    columns = page.locator("table.zoo thead th").all_inner_texts()
    generations = ["without verification", "with verification", "transactions v2", "strict markers"]
    assert columns == ["what happens", *generations]
    cells = page.locator("[data-story~=z01] td").all_inner_texts()
    assert [cell.splitlines()[0].split(" ", 1)[1] for cell in cells[1:]] == generations


def test_hundreds_of_partitions_are_on_one_screen_and_are_found(
    browser: object, new_page: Any, tmp_path: Path
) -> None:
    assert browser
    config = tmp_path / "wide.yaml"
    config.write_text(f"topics:\n  wide: {WIDE}\n")
    with TxnsimServer(arguments=("--ui", "--http", "0", "--config", str(config))) as txnsim_server:
        page = new_page(txnsim_server.http, expects=("503", "net::ERR_"))
        page.wait_for_selector(f"text={WIDE - 3} more.")
        assert page.locator(".partition").count() == 3
        page.fill("#partition", "wide-117")
        page.wait_for_selector(".partition.focus:has-text('wide-117')")
        page.keyboard.press("Tab")
        page.get_by_role("button", name="Cluster").click()
        boxes = page.locator(".box-of")
        page.wait_for_function(f"() => document.querySelectorAll('.box-of').length === {WIDE}")
        last_box = boxes.last.bounding_box()
        assert last_box["y"] + last_box["height"] < 750
        cell = page.locator("tr", has_text="wide-117")
        cell.locator("td", has_text="1, 2, 3").or_(cell.locator("td", has_text="3, 1, 2")).or_(
            cell.locator("td", has_text="2, 3, 1")
        ).first.wait_for()
        page.get_by_role("button", name="Kill broker/3").click()
        page.wait_for_selector(".box-of.short")  # once its session has ended
        page.get_by_role("button", name="Start broker/3").click()
        page.wait_for_selector(".box-of:not(.short)")
        page.close()


def test_members_of_a_streams_group_are_shown_with_their_tasks(
    browser: object, new_page: Any, tmp_path: Path
) -> None:
    assert browser
    config = tmp_path / "soon.properties"
    config.write_text("group.streams.initial.rebalance.delay.ms=0\n")
    arguments = ("--ui", "--http", "0", "--config", str(config))
    with TxnsimServer(brokers=1, arguments=arguments) as txnsim_server:
        plays = Plays(txnsim_server.bootstrap, pause_s=0.05)
        with plays.connected():
            member = plays.member("app", "m", simple())
            page = new_page(txnsim_server.http, expects=("503", "net::ERR_"))
            page.get_by_role("button", name="Cluster").click()
            row = page.locator("#streams tr", has_text="app")
            row.wait_for()
            settle(member)
            row.locator("td", has_text="0_0, 0_1").wait_for()
            assert row.locator("td").all_inner_texts()[1:4] == ["m", str(member.e), "stable"]
            member.leave()
            row.wait_for(state="detached")
        page.close()
