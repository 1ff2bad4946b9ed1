from __future__ import annotations

import pytest

from txnsim.errors import UnsupportedRequestError
from txnsim.wire import registry
from txnsim.wire.codec import request_class, response_class


def test_schema_module_holds_message_and_parts() -> None:
    module = registry.load(0, 12, part="request")
    assert {"ProduceRequest", "TopicProduceData", "PartitionProduceData"} <= set(dir(module))


@pytest.mark.parametrize(("key", "version"), [(26, 6), (0, 2), (26, -1)])
def test_unknown_version_is_refused_by_name(key: int, version: int) -> None:
    with pytest.raises(UnsupportedRequestError, match=rf"has no version {version}"):
        registry.load(key, version, part="request")


def test_unknown_key_is_refused() -> None:
    with pytest.raises(UnsupportedRequestError, match="API key 4 is unknown"):
        registry.load(4, 0, part="request")


def test_own_messages_stand_beside_those_of_kio() -> None:
    assert registry.versions(65) == (0, 1)
    assert registry.load(65, 1, part="request") is registry.load(65, 1, part="response")
    assert registry.versions(27) == (0, 1, 2)
    assert registry.load(27, 0, part="request") is registry.load(27, 0, part="response")


def test_names_of_other_versions_are_known() -> None:
    # producer_epoch came to EndTxnResponse with version 5.
    for _ in range(2):
        registry.check_known(response_class(26, 0), {"producer_epoch": 0})
    # The newest AddPartitionsToTxnRequest has no such field, the oldest has.
    registry.check_known(request_class(24, 5), {"v3_and_below_transactional_id": "t"})


def test_slip_of_the_pen_is_found() -> None:
    with pytest.raises(TypeError, match="no version of EndTxnResponse has a field 'produer_id'"):
        registry.check_known(response_class(26, 0), {"producer_id": 0, "produer_id": 0})
