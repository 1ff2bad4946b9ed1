"""EndTxn v0 to v5: old protocol and new, and every refusal of the tables for both."""

from __future__ import annotations

import pytest

from tests.support.handlers import Api, handlers, transaction
from txnsim.errors import ErrorCode


def values(
    identity: tuple[int, int], *, committed: bool = True, name: str = "id"
) -> dict[str, object]:
    return {
        "transactional_id": name,
        "producer_id": identity[0],
        "producer_epoch": identity[1],
        "committed": committed,
    }


async def open_transaction(api: Api, name: str = "id") -> tuple[int, int]:
    identity = await api.producer(name)
    await api.ask("AddPartitionsToTxn", 3, **transaction(name, identity, {"orders": [0]}))
    return identity


@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize("committed", [True, False])
async def test_every_version_ends_a_transaction(api: Api, version: int, committed: bool) -> None:
    pid, epoch = await open_transaction(api)
    answer = await api.ask("EndTxn", version, **values((pid, epoch), committed=committed))
    assert answer.error_code is ErrorCode.none
    if version == 5:
        assert (answer.producer_id, answer.producer_epoch) == (pid, epoch + 1)
    found = await api.state("id", "CompleteCommit" if committed else "CompleteAbort")
    assert found.producer_epoch == (epoch + 1 if version == 5 else epoch)


@pytest.mark.parametrize("version", range(6))
async def test_checks_in_their_order(api: Api, version: int) -> None:
    pid, epoch = await open_transaction(api)
    fenced = ErrorCode.producer_fenced if version >= 2 else ErrorCode.invalid_producer_epoch
    for wanted, error in (
        (values((pid, epoch), name=""), ErrorCode.invalid_request),
        (values((pid, epoch), name="nobody"), ErrorCode.invalid_producer_id_mapping),
        (values((pid + 9, epoch)), ErrorCode.invalid_producer_id_mapping),
        (values((pid, epoch + 1)), fenced),
        (values((pid, epoch - 1)), fenced),
    ):
        answer = await api.ask("EndTxn", version, **wanted)
        assert answer.error_code is error
        if version == 5:
            assert (answer.producer_id, answer.producer_epoch) == (-1, -1)


@pytest.mark.parametrize("version", [0, 4])
async def test_a_repeated_end_of_the_old_protocol_is_answered_again(api: Api, version: int) -> None:
    identity = await open_transaction(api)
    await api.ask("EndTxn", version, **values(identity))
    await api.state("id", "CompleteCommit")
    assert (await api.ask("EndTxn", version, **values(identity))).error_code is ErrorCode.none
    other = await api.ask("EndTxn", version, **values(identity, committed=False))
    assert other.error_code is ErrorCode.invalid_txn_state


async def test_a_repeated_end_of_transactions_v2_gives_the_identity_again(api: Api) -> None:
    pid, epoch = await open_transaction(api)
    for _ in range(2):
        answer = await api.ask("EndTxn", 5, **values((pid, epoch)))
        assert (answer.error_code, answer.producer_epoch) == (ErrorCode.none, epoch + 1)
        await api.state("id", "CompleteCommit")
    other = await api.ask("EndTxn", 5, **values((pid, epoch), committed=False))
    assert other.error_code is ErrorCode.invalid_txn_state


@pytest.mark.parametrize("version", range(6))
async def test_without_a_transaction_only_v5_can_abort(api: Api, version: int) -> None:
    pid, epoch = await api.producer("id")
    committed = await api.ask("EndTxn", version, **values((pid, epoch)))
    assert committed.error_code is ErrorCode.invalid_txn_state
    aborted = await api.ask("EndTxn", version, **values((pid, epoch), committed=False))
    if version < 5:
        assert aborted.error_code is ErrorCode.invalid_txn_state
    else:
        assert (aborted.error_code, aborted.producer_epoch) == (ErrorCode.none, epoch + 1)


async def test_a_new_end_at_level_zero_can_not_be_recorded() -> None:
    async with handlers(level=0) as api:
        identity = await open_transaction(api)
        answer = await api.ask("EndTxn", 5, **values(identity))
        assert answer.error_code is ErrorCode.unsupported_version


async def test_refusals_and_the_subject(api: Api) -> None:
    fenced = ErrorCode.producer_fenced
    assert api.refuse("EndTxn", 2, fenced, **values((1, 0))).error_code is fenced
    old = api.refuse("EndTxn", 1, fenced, **values((1, 0)))
    assert old.error_code is ErrorCode.invalid_producer_epoch
    new = api.refuse("EndTxn", 5, fenced, **values((1, 0)))
    assert (new.producer_id, new.producer_epoch) == (-1, -1)
    about = api.subject("EndTxn", 5, **values((1, 0), committed=False))
    assert (about.transactional_id, about.producer_id, about.committed) == ("id", 1, False)
