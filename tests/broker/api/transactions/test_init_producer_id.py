"""InitProducerId v0 to v6: the first one, refusals, the subject; the casebook has its answers."""

from __future__ import annotations

from tests.support.handlers import Api
from txnsim.errors import ErrorCode


def values(
    transactional_id: str | None, *, timeout: int = 60_000, pid: int = -1, epoch: int = -1
) -> dict[str, object]:
    return {
        "transactional_id": transactional_id,
        "transaction_timeout": timeout,
        "producer_id": pid,
        "producer_epoch": epoch,
    }


async def test_the_first_request_after_a_start_finds_no_block_of_ids(api: Api) -> None:
    answer = await api.ask("InitProducerId", 4, **values(None))
    assert answer.error_code is ErrorCode.coordinator_load_in_progress
    assert (answer.producer_id, answer.producer_epoch) == (-1, -1)


async def test_refusals_and_the_subject(api: Api) -> None:
    fenced = ErrorCode.producer_fenced
    assert api.refuse("InitProducerId", 5, fenced, **values("id")).error_code is fenced
    old = api.refuse("InitProducerId", 3, fenced, **values("id"))
    assert old.error_code is ErrorCode.invalid_producer_epoch
    named = api.subject("InitProducerId", 4, **values("id", pid=7, epoch=0))
    assert (named.transactional_id, named.producer_id) == ("id", 7)
    assert api.subject("InitProducerId", 0, **values("id")).producer_id is None
