"""DescribeDelegationToken (key 41): the tokens of an owner (KIP-48).

Versions: 2 is flexible, 3 names the requester of a token. An anonymous client may not ask. Any
other one gets the error that tokens are disabled: the broker has no
``delegation.token.secret.key``. Kafka's counterpart: KafkaApis.handleDescribeTokensRequest.
"""

from __future__ import annotations

from typing import Final

from txnsim.api._identities.delegation_tokens import refuse_request
from txnsim.api.request import refuse_at_top_level

API_KEY: Final = 41

handle = refuse_request
refuse = refuse_at_top_level(tokens=())
