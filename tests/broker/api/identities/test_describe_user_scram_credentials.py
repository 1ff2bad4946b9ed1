"""DescribeUserScramCredentials: who can log in, never with what."""

from __future__ import annotations

from tests.support.handlers import Api
from tests.support.security import credentials
from txnsim.errors import ErrorCode


async def test_users_are_described_by_name_or_all(api: Api) -> None:
    metadata = api.broker.metadata
    assert (await api.ask("DescribeUserScramCredentials", 0, users=None)).results == ()
    metadata.publish(metadata.image.with_scram(credentials()))
    for users in (None, [], [{"name": "alice"}]):
        answer = await api.ask("DescribeUserScramCredentials", 0, users=users)
        (result,) = answer.results
        infos = [(info.mechanism, info.iterations) for info in result.credential_infos]
        assert (result.user, infos) == ("alice", [(1, 4096), (2, 4096)])


async def test_unknown_users_and_those_named_twice_are_errors(api: Api) -> None:
    names = [{"name": name} for name in ("bob", "eve", "eve")]
    answer = await api.ask("DescribeUserScramCredentials", 0, users=names)
    assert {one.user: one.error_code for one in answer.results} == {
        "bob": ErrorCode.resource_not_found,
        "eve": ErrorCode.duplicate_resource,
    }
