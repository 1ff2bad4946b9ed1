"""States of nodes: by the order of arrivals at each, whatever the order between them."""

from __future__ import annotations

from itertools import permutations

from txnsim_lab.exploration._node_states import NodeStates

ARRIVALS = (("a", "x"), ("a", "y"), ("b", "x"), ("c", "z"))


def fingerprint_of(arrivals: tuple[tuple[str, str], ...], *further: object) -> int:
    states = NodeStates()
    for node_name, content in arrivals:
        states.note_arrival(node_name, "message", content)
    return states.fingerprint({}, *further)


def test_orders_that_commute_are_one_state() -> None:
    by_order_at_a: dict[bool, set[int]] = {True: set(), False: set()}
    for order in permutations(ARRIVALS):
        is_x_first = order.index(ARRIVALS[0]) < order.index(ARRIVALS[1])
        by_order_at_a[is_x_first].add(fingerprint_of(order))
    assert [len(fingerprints) for fingerprints in by_order_at_a.values()] == [1, 1]
    assert by_order_at_a[True] != by_order_at_a[False]


def test_what_is_on_its_way_and_the_time_belong_to_the_state() -> None:
    assert fingerprint_of(ARRIVALS, 1) != fingerprint_of(ARRIVALS, 2)


def test_what_clients_notice_comes_before_what_arrives_later() -> None:
    early_states, late_states, unnoticed_states = NodeStates(), NodeStates(), NodeStates()
    for states in (early_states, late_states, unnoticed_states):
        states.note_arrival("client/a", "message", 1)
    early_states.note_at_clients("crash")
    early_states.note_arrival("client/a", "message", 2)
    late_states.note_arrival("client/a", "message", 2)
    late_states.note_at_clients("crash")
    unnoticed_states.note_at_brokers("crash")
    unnoticed_states.note_arrival("client/a", "message", 2)
    assert (
        len({states.fingerprint({}) for states in (early_states, late_states, unnoticed_states)})
        == 3
    )
