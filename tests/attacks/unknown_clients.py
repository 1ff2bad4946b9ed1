"""Input of clients that have not logged in yet (SASL)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from tests.attacks.target import Attack, AttackTarget
from tests.support.security import bearer, unsecured_token
from txnsim.client.raw.connection import RawConnection

SASL_HANDSHAKE: Final = 17
SASL_AUTHENTICATE: Final = 36
SERVE: Final = ("--brokers", "1", "--config", str(Path(__file__).with_name("sasl.properties")))
"""Options of a server without an authorizer, so that the neighbour needs no rights."""
MESSAGE_BYTES: Final = 500_000


def long_bearer(target: AttackTarget) -> int:
    """A message of OAUTHBEARER with 500 kB of pairs, and one with an endless token."""
    pairs = b"n,," + b"\x01" + b"a=b\x01" * (MESSAGE_BYTES // 4)
    token = b"n,," + b"\x01auth=Bearer " + b"a" * MESSAGE_BYTES + b"*\x01\x01"
    return _send_token(target, "OAUTHBEARER", pairs) + _send_token(target, "OAUTHBEARER", token)


def absurd_ends(target: AttackTarget) -> int:
    """Tokens that end at 1e400, NaN and 10^30, and one that is nested 100,000 times."""
    claims = [f'{{"sub":"x","exp":{end}}}' for end in ("1e400", "NaN", "1" + "0" * 30)]
    claims.append('{"sub":"x","exp":4000000000,"x":' + "[" * 100_000 + "]" * 100_000 + "}")
    return sum(
        _send_token(target, "OAUTHBEARER", bearer(unsecured_token(claim.encode())))
        for claim in claims
    )


def long_name(target: AttackTarget) -> int:
    """A name of SCRAM of 150,000 ligatures, which takes 15 s to bring into its normal form."""
    name = "\N{ARABIC LIGATURE SALLALLAHOU ALAYHE WASALLAM}" * 150_000
    return _send_token(target, "SCRAM-SHA-256", f"n,,n={name},r=x".encode())


def _send_token(target: AttackTarget, mechanism: str, token: bytes) -> int:
    """Send a token. Any answer is accepted."""
    address = target.ready["security"]["bootstrap"]["SASL"].split(",")[0]
    with RawConnection(address) as connection:
        connection.ask(SASL_HANDSHAKE, 1, mechanism=mechanism)
        _answer: Any = connection.ask(SASL_AUTHENTICATE, 2, auth_bytes=token)
    return len(token)


ATTACKS: Final = (
    Attack("bearer-long", long_bearer, serve=SERVE),
    Attack("bearer-absurd-ends", absurd_ends, serve=SERVE),
    Attack("scram-long-name", long_name, serve=SERVE),
)
