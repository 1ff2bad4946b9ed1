"""AlterUserScramCredentials: each user by itself."""

from __future__ import annotations

from tests.support.handlers import Api
from txnsim.errors import ErrorCode
from txnsim.security.scram import ScramMechanism

BOB = {
    "name": "bob",
    "mechanism": 1,
    "iterations": 4096,
    "salt": b"salt",
    "salted_password": b"salted",
}


async def test_a_user_is_set_and_forgotten(api: Api) -> None:
    answer = await api.ask("AlterUserScramCredentials", 0, upsertions=[BOB])
    assert [(one.user, one.error_code) for one in answer.results] == [("bob", ErrorCode.none)]
    found = api.broker.image.scram["bob", ScramMechanism.SCRAM_SHA_256]
    assert (found.salt, found.iterations) == (b"salt", 4096)
    assert b"salted" not in (found.stored_key, found.server_key)
    await api.ask("AlterUserScramCredentials", 0, deletions=[{"name": "bob", "mechanism": 1}])
    assert not api.broker.image.scram


async def test_what_is_refused_changes_nothing(api: Api) -> None:
    offset = api.broker.image.offset
    deletions = [{"name": "bob", "mechanism": 1}]
    answer = await api.ask("AlterUserScramCredentials", 0, deletions=deletions)
    assert answer.results[0].error_code is ErrorCode.resource_not_found
    assert api.broker.image.offset == offset
