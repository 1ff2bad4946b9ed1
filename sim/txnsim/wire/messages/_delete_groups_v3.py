"""DeleteGroups v3: each group's error has a message. The request is that of version 2."""

from typing import Any, Final

from kio.schema.delete_groups.v2.request import DeleteGroupsRequest as RequestV2
from kio.schema.delete_groups.v2.response import DeleteGroupsResponse as ResponseV2

from txnsim.wire._declared_messages import message, remake_class

DeleteGroupsRequest: Final[Any] = remake_class(RequestV2, version=3)
DeletableGroupResult: Final[Any] = message(
    "DeletableGroupResult",
    "What came of one group.",
    "group_id string",
    "error_code error_code",
    "error_message string? = None",
    class_attributes={
        "__version__": 3,
        "__api_key__": ResponseV2.__api_key__,
        "__header_schema__": ResponseV2.__header_schema__,
    },
)
DeleteGroupsResponse: Final[Any] = remake_class(ResponseV2, DeletableGroupResult, version=3)
