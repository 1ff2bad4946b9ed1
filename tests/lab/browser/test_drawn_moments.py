"""At each moment of a drawn run the page, ``txns why``, ``/verdict`` and a look from outside say
the same, or the page says how far it is behind.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.lab.browser.drawn_cluster import DrawnCluster, OutsidePartition
from tests.support.txnsim_server import TxnsimServer

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

MOMENT: Final = """() => {
  const bar = document.querySelector("#verdict");
  const state = document.querySelector(".link-state");
  return {
    verdict: bar?.dataset.verdict ?? null,
    event: bar?.dataset.event ?? null,
    lag: bar?.dataset.lag ?? null,
    headline: bar?.querySelector("h2")?.textContent ?? "",
    age: state?.textContent ?? "",
    isLive: Boolean(state?.classList.contains("live")),
    rows: Object.fromEntries([...document.querySelectorAll("[data-partition]")].map(
      ({ dataset }) => [dataset.partition, [dataset.readers, dataset.leader]])),
  };
}"""
SETTLED_MOMENT: Final = f"""async ({{ patienceMs, position }}) => {{
  const look = {MOMENT};
  const endMs = performance.now() + patienceMs;
  const isSettled = ({{ isLive, event }}) =>
    position === null ? !isLive : isLive && Number(event ?? -1) >= position;
  while (!isSettled(look()) && performance.now() < endMs) {{
    await new Promise((resolve) => requestAnimationFrame(resolve));
  }}
  return look();
}}"""
"""What is shown once the page has come to a position, or at the end of one's patience. Without a
position: once the page knows that nothing is recorded.
"""
SAYS_ITS_AGE: Final = re.compile(
    r"behind|recording stopped at #\d+|nothing is recorded|no answer|does not answer|connecting"
)
SETTLES_MS: Final = 15_000
ACTIONS_BETWEEN_MOMENTS: Final = 2


def ageless(text: str) -> str:
    """A text without ages, which grow while the test reads the page."""
    return re.sub(r"\d+ (s|min|h)\b", "N", text)


def judged_rows(verdict: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """What the judge says of partitions, as the table has it."""
    return {
        judged["partition"]: (
            ageless(judged["standing"]),
            "none" if judged["leader_id"] < 0 else str(judged["leader_id"]),
        )
        for judged in verdict["partitions"]
    }


def told(verdict: dict[str, Any]) -> tuple[object, ...]:
    return verdict["state"], ageless(verdict["headline"]), judged_rows(verdict)


def shown_moment(page: Page, drawn_cluster: DrawnCluster) -> dict[str, Any]:
    """What the page shows when it had the time to hear of all that was done."""
    position = (
        drawn_cluster.ask("GET", "verdict")["position"] if drawn_cluster.is_recording else None
    )
    settling = {"patienceMs": SETTLES_MS, "position": position}
    moment: dict[str, Any] = page.evaluate(SETTLED_MOMENT, settling)
    return moment


def differences_of_page(drawn_cluster: DrawnCluster, moment: dict[str, Any]) -> list[str]:
    """The differences between the page and the judge's verdict on the event that the page shows."""
    verdict = drawn_cluster.ask("GET", f"verdict?at={moment['event']}")
    if verdict is None:
        return []  # the ring has dropped the event
    rows = {name: (ageless(row[0]), row[1]) for name, row in moment["rows"].items()}
    rows_by_name = judged_rows(verdict)
    differences = []
    if verdict["state"] != moment["verdict"]:
        differences.append(f"page {moment['verdict']}, /verdict {verdict['state']}")
    if ageless(verdict["headline"]) not in ageless(moment["headline"]):
        differences.append(f"page {moment['headline']!r}, /verdict {verdict['headline']!r}")
    differences += [
        f"{name}: page {row}, /verdict {rows_by_name.get(name)}"
        for name, row in rows.items()
        if row != rows_by_name.get(name) and row[0] not in ("deleted", "not there")
    ]
    return differences


def differences_outside(
    verdict: dict[str, Any], outside_partitions: dict[str, OutsidePartition]
) -> list[str]:
    """The differences between the verdict and what clients see."""
    differences = []
    judged_by_name = {
        judged_partition["partition"]: judged_partition
        for judged_partition in verdict["partitions"]
    }
    for name, partition in outside_partitions.items():
        judged_partition = judged_by_name.get(name)
        if judged_partition is None:
            differences.append(f"{name} is there, and is not judged")
            continue
        if partition.stable_offset is None:
            continue
        states = {open_txn["state"] for open_txn in judged_partition["open_txns"]}
        if judged_partition["stands_at"] != partition.stable_offset:
            differences.append(
                f"{name}: {judged_partition['stands_at']}, clients {partition.stable_offset}"
            )
        if partition.has_unlisted is not None and partition.has_unlisted != ("hangs" in states):
            differences.append(f"{name}: unlisted {partition.has_unlisted}, judged {states}")
        if partition.why is not None and judged_partition["state"] != "wrong-data":
            outside_standing, judged_standing = (
                ageless(partition.why),
                ageless(judged_partition["standing"]),
            )
            if outside_standing != judged_standing and not (
                outside_standing[:4] == judged_standing[:4] == "open"
            ):
                differences.append(
                    f"{name}: why {outside_standing!r}, /verdict {judged_standing!r}"
                )
    return differences


@pytest.mark.parametrize("moment_count", [30, pytest.param(1_000, marks=pytest.mark.nightly)])
def test_the_page_says_what_is_so_or_how_far_it_is_behind(
    new_page: Any, browser: object, moment_count: int
) -> None:
    seen_states = set()
    compared_count = behind_count = 0
    with (
        TxnsimServer(arguments=("--ui", "--http", "0")) as server,
        DrawnCluster(server, seed=moment_count) as drawn_cluster,
    ):
        page = new_page(server.http, expects=("409", "404", "503", "net::ERR_"))
        for _ in range(moment_count):
            for _ in range(ACTIONS_BETWEEN_MOMENTS):
                drawn_cluster.step()
            moment = shown_moment(page, drawn_cluster)
            context = [*drawn_cluster.steps[-12:], moment]
            if not moment["isLive"]:
                behind_count += 1
                assert SAYS_ITS_AGE.search(moment["age"] + moment["headline"]), context
                continue
            assert moment["lag"] == "0", context
            assert drawn_cluster.is_recording, context
            if moment["event"] is not None:
                assert differences_of_page(drawn_cluster, moment) == [], context
            verdict_before = drawn_cluster.ask("GET", "verdict")
            outside_partitions = drawn_cluster.look()
            verdict_after = drawn_cluster.ask("GET", "verdict")
            if told(verdict_before) != told(verdict_after):
                continue  # it has changed while clients looked
            assert differences_outside(verdict_after, outside_partitions) == [], context
            last = shown_moment(page, drawn_cluster)
            if last["isLive"] and last["event"] is not None and not drawn_cluster.has_gap:
                newest_verdict = drawn_cluster.ask("GET", "verdict")
                if told(newest_verdict) == told(verdict_after):
                    assert last["verdict"] == newest_verdict["state"], [*context, last]
            compared_count += 1
            seen_states.add(verdict_after["state"])
    assert compared_count > moment_count / 3, "nothing is shown where nothing is compared"
    assert {"healthy", "open", "hangs"} <= seen_states
