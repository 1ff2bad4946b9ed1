"""RenewDelegationToken (key 39): let a token live longer (KIP-48).

Versions: 2 is flexible. An anonymous client may not ask. Any other one gets the error that tokens
are disabled: the broker has no ``delegation.token.secret.key``. Kafka's counterpart:
KafkaApis.handleRenewTokenRequest.
"""

from __future__ import annotations

from typing import Final

from txnsim.api._identities.delegation_tokens import answer_without_expiry, refuse_request

API_KEY: Final = 39

handle = refuse_request
refuse = answer_without_expiry
