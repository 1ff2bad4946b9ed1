"""EndTxn v0 to v5: refusals and the subject; the casebook has its answers."""

from __future__ import annotations

from tests.support.handlers import Api
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


# ``add_partitions_to_txn``


async def test_refusals_and_the_subject(api: Api) -> None:
    fenced = ErrorCode.producer_fenced
    assert api.refuse("EndTxn", 2, fenced, **values((1, 0))).error_code is fenced
    old = api.refuse("EndTxn", 1, fenced, **values((1, 0)))
    assert old.error_code is ErrorCode.invalid_producer_epoch
    new = api.refuse("EndTxn", 5, fenced, **values((1, 0)))
    assert (new.producer_id, new.producer_epoch) == (-1, -1)
    about = api.subject("EndTxn", 5, **values((1, 0), committed=False))
    assert (about.transactional_id, about.producer_id, about.committed) == ("id", 1, False)
