"""InitProducerId v0 to v6: identities, expected identities, the words for being fenced."""

from __future__ import annotations

import pytest

from tests.support.handlers import Api, handlers, transaction
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


@pytest.mark.parametrize("version", range(6))
async def test_every_version_gives_and_bumps(api: Api, version: int) -> None:
    pid, epoch = await api.producer("id")
    answer = await api.ask("InitProducerId", version, **values("id"))
    assert (answer.error_code, answer.producer_id) == (ErrorCode.none, pid)
    assert answer.producer_epoch == epoch + 1
    idempotent = await api.ask("InitProducerId", version, **values(None, timeout=-5))
    assert idempotent.producer_id == pid + 1
    assert idempotent.producer_epoch == 0


@pytest.mark.parametrize("version", [0, 3, 5])
@pytest.mark.parametrize(
    ("transactional_id", "timeout_ms", "error"),
    [
        ("", 60_000, ErrorCode.invalid_request),
        ("id", 0, ErrorCode.invalid_transaction_timeout),
        ("id", -1, ErrorCode.invalid_transaction_timeout),
        ("id", 900_001, ErrorCode.invalid_transaction_timeout),
        ("id", 900_000, ErrorCode.none),
    ],
)
async def test_id_and_timeout_are_checked(
    api: Api, version: int, transactional_id: str, timeout_ms: int, error: ErrorCode
) -> None:
    await api.producer("id")
    answer = await api.ask(
        "InitProducerId", version, **values(transactional_id, timeout=timeout_ms)
    )
    assert answer.error_code is error


@pytest.mark.parametrize("version", [3, 4, 5])
@pytest.mark.parametrize(("pid", "epoch"), [(7, -1), (-1, 0)])
async def test_half_an_identity_is_none_and_wins_over_every_other_check(
    api: Api, version: int, pid: int, epoch: int
) -> None:
    answer = await api.ask("InitProducerId", version, **values("", pid=pid, epoch=epoch))
    assert answer.error_code is ErrorCode.invalid_request


@pytest.mark.parametrize(
    ("version", "error"),
    [
        (3, ErrorCode.invalid_producer_epoch),
        (4, ErrorCode.producer_fenced),
        (5, ErrorCode.producer_fenced),
    ],
)
async def test_the_word_for_fenced_is_known_from_v4(
    api: Api, version: int, error: ErrorCode
) -> None:
    pid, epoch = await api.producer("id")
    answer = await api.ask("InitProducerId", version, **values("id", pid=pid, epoch=epoch + 5))
    assert answer.error_code is error
    other = await api.ask("InitProducerId", version, **values("id", pid=pid + 999, epoch=epoch))
    assert other.error_code is error


async def test_an_expected_identity_bumps_once(api: Api) -> None:
    pid, epoch = await api.producer("id")
    wanted = values("id", pid=pid, epoch=epoch)
    for _ in range(2):
        answer = await api.ask("InitProducerId", 4, **wanted)
        assert (answer.error_code, answer.producer_epoch) == (ErrorCode.none, epoch + 1)


@pytest.mark.parametrize("version", [0, 5])
async def test_an_open_transaction_is_aborted_first(api: Api, version: int) -> None:
    identity = await api.producer("id")
    await api.ask("AddPartitionsToTxn", 3, **transaction("id", identity, {"orders": [0]}))
    answer = await api.ask("InitProducerId", version, **values("id"))
    assert answer.error_code is ErrorCode.concurrent_transactions
    await api.state("id", "CompleteAbort")
    assert (await api.producer("id"))[1] == identity[1] + 2


@pytest.mark.parametrize(
    ("enabled", "asked", "error"),
    [
        (False, {"enable2_pc": True}, ErrorCode.transactional_id_authorization_failed),
        (True, {"keep_prepared_txn": True}, ErrorCode.unsupported_version),
        (True, {"enable2_pc": True}, ErrorCode.none),
        (False, {}, ErrorCode.invalid_transaction_timeout),
    ],
)
async def test_version_6_knows_two_phase_commit(
    enabled: bool, asked: dict[str, bool], error: ErrorCode
) -> None:
    async with handlers(
        unstable_api_versions_enable=True, transaction_two_phase_commit_enable=enabled
    ) as api:
        await api.producer("other")
        answer = await api.ask("InitProducerId", 6, **{**values("id", timeout=0), **asked})
    assert answer.error_code is error
    assert (answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch) == (-1, -1)


async def test_refusals_and_the_subject(api: Api) -> None:
    fenced = ErrorCode.producer_fenced
    assert api.refuse("InitProducerId", 5, fenced, **values("id")).error_code is fenced
    old = api.refuse("InitProducerId", 3, fenced, **values("id"))
    assert old.error_code is ErrorCode.invalid_producer_epoch
    named = api.subject("InitProducerId", 4, **values("id", pid=7, epoch=0))
    assert (named.transactional_id, named.producer_id) == ("id", 7)
    assert api.subject("InitProducerId", 0, **values("id")).producer_id is None
