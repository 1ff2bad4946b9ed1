from __future__ import annotations

from tests.support.hand_made_histories import FAILED, UNKNOWN, HistoryBuilder
from txnsim_lab.check._dependencies import Edge, circle, dependencies
from txnsim_lab.check.observations import Isolation


def pairs(edges: tuple[Edge, ...]) -> list[tuple[str, str]]:
    return [(edge.earlier_label, edge.later_label) for edge in edges]


def test_the_last_write_of_a_key_is_the_version_that_counts() -> None:
    history_builder = HistoryBuilder()
    for offset, label in enumerate(("A", "B", "A", "C")):
        history_builder.write(label, f"v{offset}", offset, key="x")
    history_builder.write("A", "elsewhere", 0, key="x", partition=1)
    history_builder.write("B", "w", 5, key="y")
    history_builder.write("A", "without a key", 6)
    for label in "ABC":
        history_builder.commit(label)
    assert pairs(dependencies(history_builder.history).write_write) == [("A", "C"), ("B", "A")]


def test_only_committed_transactions_count() -> None:
    history_builder = HistoryBuilder()
    for offset, label in enumerate("ABCD"):
        history_builder.write(label, f"v{offset}", offset, key="x")
    history_builder.commit("A")
    history_builder.abort("B")
    history_builder.commit("C", outcome=UNKNOWN)
    history_builder.commit("D", outcome=UNKNOWN)
    history_builder.read(3, {3: "v3"}, 4)
    graph = dependencies(history_builder.history)
    assert sorted(graph.transactions) == ["A", "D"]
    assert pairs(graph.write_write) == [("A", "D")]


def test_who_reads_depends_on_who_wrote() -> None:
    history_builder = HistoryBuilder()
    history_builder.write("A", "a", 0)
    history_builder.write("X", "both", outcome=UNKNOWN)
    history_builder.write("A", "both", outcome=UNKNOWN)
    history_builder.read(
        0, {0: "a", 1: "both", 2: "nobody's", 3: None, 4: "own"}, 5, transaction="B"
    )
    history_builder.write("B", "own", 4)
    history_builder.read(0, {0: "a"}, 1, transaction="C", isolation=Isolation.READ_UNCOMMITTED)
    history_builder.read(0, {}, 1, transaction="C", error="NOT_LEADER_OR_FOLLOWER")
    for label in "ABC":
        history_builder.commit(label)
    assert pairs(dependencies(history_builder.history).write_read) == [("A", "B")]


def test_transactions_of_one_id_come_in_the_order_of_their_records() -> None:
    history_builder = HistoryBuilder()
    history_builder.begin("A1", transactional_id="a")
    history_builder.begin("A2", transactional_id="a")
    history_builder.begin("B1", transactional_id="b")
    for offset, label in enumerate(("A1", "A1", "B1", "A2", "A1", None, "nobody's")):
        history_builder.write(label, f"v{offset}", offset)
    for label in ("A1", "A2", "B1", "nobody's"):
        history_builder.commit(label)
    sessions = dependencies(history_builder.history).sessions
    assert {owner: pairs(edges) for owner, edges in sessions.items()} == {
        "a": [("A1", "A2"), ("A2", "A1")]
    }


# Circles


def edge(text: str) -> Edge:
    return Edge(text[0], text[1], "")


def test_the_shortest_circle_is_found() -> None:
    edges = [edge(text) for text in ("ab", "bc", "ca", "cd", "dc", "de")]
    assert pairs(circle(edges)) == [("c", "d"), ("d", "c")]


def test_no_circle_is_no_circle() -> None:
    assert circle([]) == ()
    assert circle([edge("ab"), edge("ac"), edge("bd"), edge("cd")]) == ()


def test_a_circle_may_have_to_contain_certain_edges() -> None:
    edges = [edge(text) for text in ("ab", "bc", "ca", "cd", "dc")]
    assert pairs(circle(edges, through=[edge("ab")])) == [("a", "b"), ("b", "c"), ("c", "a")]
    assert circle(edges, through=[edge("ax")]) == ()


def test_a_way_from_one_circle_to_another_is_no_circle() -> None:
    edges = [edge(text) for text in ("ab", "ba", "bc", "cd", "dc", "xa", "dy")]
    assert pairs(circle(edges)) == [("a", "b"), ("b", "a")]
    assert circle(edges, through=[edge("bc"), edge("xa")]) == ()


def test_a_long_chain_without_a_circle_is_soon_known_to_have_none() -> None:
    assert circle(Edge(f"{number:05}", f"{number + 1:05}", "") for number in range(20_000)) == ()


def test_a_record_of_another_does_not_show_that_a_commit_took_effect() -> None:
    history_builder = HistoryBuilder()
    history_builder.write("A", "v", outcome=FAILED)
    history_builder.commit("A", outcome=UNKNOWN)
    history_builder.write("B", "v", 0)
    history_builder.commit("B")
    history_builder.read(0, {0: "v"}, 1)
    assert sorted(dependencies(history_builder.history).transactions) == ["B"]
