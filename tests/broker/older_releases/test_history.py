"""The list of changes that are no switch stands beside the list of those that are."""

from __future__ import annotations

from tests.broker.older_releases.history import UNOBSERVED
from txnsim.releases.rules import documentation


def test_every_row_says_what_changed_when_and_why_no_client_sees_it() -> None:
    for row in UNOBSERVED:
        assert all((row.ticket, row.since, row.change, row.why)), row


def test_what_is_a_switch_is_not_called_unobserved() -> None:
    switches = {rule.ticket for rule in documentation().values() if "KAFKA" in rule.ticket}
    assert not switches & {part for row in UNOBSERVED for part in row.ticket.split(", ")}
