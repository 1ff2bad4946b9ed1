"""The gate before the handlers of a listener.

Kafka's counterpart: the checks at the beginning of each method of KafkaApis.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

import msgspec

from txnsim.api._access import Access
from txnsim.api.authorization import _groups as groups
from txnsim.api.authorization import _topics as topics
from txnsim.api.authorization import _transactions as transactions
from txnsim.api.authorization._named_resources import PARTS, Guard, handle_parts
from txnsim.api.authorization._refusal_texts import with_texts
from txnsim.api.authorization._whole_requests import refusal
from txnsim.api.request import ApiTable, Handler, Reply, Request
from txnsim.security.authorizer import Authorizer

GUARDS: Final[Mapping[int, Guard]] = {
    **{
        key: partial(handle_parts, resource_part=resource_part)
        for key, resource_part in PARTS.items()
    },
    **topics.GUARDS,
    **groups.GUARDS,
    **transactions.GUARDS,
}


def guard_apis(apis: ApiTable, authorizer: Authorizer) -> ApiTable:
    """The same APIs, with the rights checked before each handler."""
    return msgspec.structs.replace(
        apis,
        handlers={
            api_key: handler.with_parts(handle=partial(_handle, handler, authorizer))
            for api_key, handler in apis.handlers.items()
        },
    )


async def _handle(handler: Handler, authorizer: Authorizer, request: Request) -> Reply:
    access = request.access = Access(
        authorizer,
        request.broker.image.acls,
        principal=request.principal,
        host=request.client_host,
    )
    error = refusal(request, access)
    if error is not None:
        return await with_texts(request, handler.refuse(request, error))
    guard_request = GUARDS.get(handler.key)
    if guard_request is not None:
        return await guard_request(request, access, handler)
    return await handler.handle(request)
