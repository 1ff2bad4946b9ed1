"""ACLs between the wire and the core."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.handlers import Api
from tests.support.security import acl
from txnsim.api._identities.acl_entries import described
from txnsim.api.request import parsed
from txnsim.errors import MalformedFrameError
from txnsim.security.acls import NO_ACLS, AclFilter, Operation, ResourceType
from txnsim.wire import codec


async def test_bindings_of_one_resource_stand_together(api: Api) -> None:
    request = api.request("DescribeAcls", 3)
    topic = ResourceType.TOPIC
    rules = (("a", Operation.READ), ("b", Operation.READ), ("a", Operation.WRITE))
    acls = NO_ACLS.plus(acl(topic, name, operation) for name, operation in rules)
    found = await described(request, acls, AclFilter())
    operations = {one.resource_name: [rule.operation for rule in one.acls] for one in found}
    assert operations == {"a": [Operation.READ, Operation.WRITE], "b": [Operation.READ]}


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("DescribeAcls", {}),
        ("DeleteAcls", {"filters": [{}]}),
        ("CreateAcls", {"creations": [{}]}),
    ],
)
def test_what_is_of_an_unknown_kind_can_not_be_read(
    api: Api, name: str, values: dict[str, Any]
) -> None:
    request = api.request(name, 3, **values)
    frame = codec.encode_request(request.api_key, 3, 1, "c", request.message)[4:]
    with pytest.raises(MalformedFrameError):
        parsed(frame, request, request.broker)
