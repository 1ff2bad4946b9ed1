"""What a coordinator is asked and answers."""

from __future__ import annotations

from txnsim.txn import commands


def test_a_plain_init_producer_id_expects_no_identity() -> None:
    command = commands.InitProducerId(transactional_id=None, timeout_ms=1)
    assert command.expected is None
    assert not command.enable_two_phase_commit
    assert not command.keep_prepared
