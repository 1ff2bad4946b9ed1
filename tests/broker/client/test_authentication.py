"""How a connection says who it is, against the broker's own SaslSession."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.broker.client.fake_broker import (
    SILENCE,
    FakeBroker,
    ReceivedRequest,
    end_answer,
    in_turn,
)
from txnsim.client.authentication import Authentication, ClientSecurity
from txnsim.client.cluster import Cluster
from txnsim.client.connection import ClientSettings, Connection
from txnsim.client.errors import AuthenticationError, ConnectionLostError
from txnsim.client.txn_requests import TxnRequests
from txnsim.client.versions import ClientApi
from txnsim.errors import ConfigError, ErrorCode
from txnsim.runtime.real_world import RealClock
from txnsim.runtime.tls import client_context, server_context
from txnsim.security.login import Bearer, Password
from txnsim.security.options import ClientAuth, ClientTls, SecurityProtocol, TlsFiles
from txnsim.server.security_demo import Authority

PLAIN = ClientSecurity(
    protocol=SecurityProtocol.SASL_PLAINTEXT,
    mechanism="PLAIN",
    credential=Password(user="alice", password="secret"),
)
END = TxnRequests("t", producer_id=1, producer_epoch=2).end(committed=True)


def shakes(error: int = 0) -> Callable[[ReceivedRequest], Any]:
    return lambda request: request.answer(error_code=error, mechanisms=("PLAIN", "OAUTHBEARER"))


def lets_in(
    lifetime_ms: int = 0, *, error: int = 0, token: bytes = b""
) -> Callable[[ReceivedRequest], Any]:
    def answer(request: ReceivedRequest) -> Any:
        return request.answer(
            error_code=error,
            error_message="who are you?" if error else None,
            auth_bytes=token,
            session_lifetime=lifetime_ms,
        )

    return answer


def broker(**handlers: Callable[[ReceivedRequest], Any]) -> FakeBroker:
    """A broker that accepts every login; ``handlers`` replace single handlers."""
    return FakeBroker(
        {
            ClientApi.SASL_HANDSHAKE: handlers.get("handshake", shakes()),
            ClientApi.SASL_AUTHENTICATE: handlers.get("authenticate", lets_in()),
            ClientApi.END_TXN: handlers.get("end", end_answer()),
        }
    )


async def connect(fake: FakeBroker, security: ClientSecurity = PLAIN) -> Connection:
    clock = RealClock(asyncio.get_running_loop())
    settings = ClientSettings(security=security)
    return await Connection.open("127.0.0.1", fake.port, settings=settings, clock=clock)


async def test_a_client_says_who_it_is_before_anything_else() -> None:
    async with broker() as fake:
        connection = await connect(fake)
        assert fake.keys == [ClientApi.SASL_HANDSHAKE, ClientApi.SASL_AUTHENTICATE]
        handshake_request, token_request = fake.asked[1:]
        assert (handshake_request.version, handshake_request.message.mechanism) == (1, "PLAIN")
        assert (token_request.version, token_request.message.auth_bytes) == (2, b"\0alice\0secret")
        assert (await connection.request(END)).error_code == ErrorCode.none
        connection.close()


@pytest.mark.parametrize(
    ("handlers", "message"),
    [
        (
            {"handshake": shakes(33)},
            r"'PLAIN' not enabled in the server, enabled mechanisms are \[PLAIN, OAUTHBEARER\]",
        ),
        ({"handshake": shakes(34)}, "SaslHandshake with ILLEGAL_SASL_STATE"),
        ({"authenticate": lets_in(error=58)}, "who are you"),
        ({"authenticate": lets_in(token=b"?")}, "answers PLAIN with a token"),
    ],
)
async def test_a_broker_that_objects_is_left(handlers: Any, message: str) -> None:
    async with broker(**handlers) as fake:
        with pytest.raises(AuthenticationError, match=message):
            await connect(fake)
        with pytest.raises(AuthenticationError, match=message):
            await Cluster(fake.address, settings=ClientSettings(security=PLAIN)).connect()


async def test_a_broker_without_sasl_is_recognized() -> None:
    async with broker() as fake:
        del fake.ranges[ClientApi.SASL_HANDSHAKE]
        with pytest.raises(Exception, match="does not support SASL_HANDSHAKE"):
            await connect(fake)


async def test_a_session_is_renewed_before_it_ends_and_requests_wait() -> None:
    # KIP-368: nothing else may come between the handshake and the broker's last word.
    authenticate = in_turn(lets_in(1), lets_in(0))
    async with broker(authenticate=authenticate) as fake:
        connection = await connect(fake)
        await asyncio.sleep(0.01)
        first_answer_future, second_answer_future = connection.send(END), connection.send(END)
        await first_answer_future
        await second_answer_future
        assert fake.keys == [
            *(ClientApi.SASL_HANDSHAKE, ClientApi.SASL_AUTHENTICATE),
            *(ClientApi.SASL_HANDSHAKE, ClientApi.SASL_AUTHENTICATE),
            *(ClientApi.END_TXN, ClientApi.END_TXN),
        ]
        await connection.request(END)
        assert len(fake.of(ClientApi.SASL_AUTHENTICATE)) == 2
        connection.close()


async def test_who_is_not_known_again_is_cut_off() -> None:
    authenticate = in_turn(lets_in(1), lets_in(error=58))
    async with broker(authenticate=authenticate) as fake:
        connection = await connect(fake)
        await asyncio.sleep(0.01)
        with pytest.raises(AuthenticationError, match="who are you"):
            await connection.request(END)
        assert not connection.is_usable
        await connection.wait_closed()


async def test_a_connection_that_is_cut_meanwhile_fails_what_waits() -> None:
    async with broker(authenticate=in_turn(lets_in(1), lambda _: SILENCE)) as fake:
        connection = await connect(fake)
        await asyncio.sleep(0.01)
        answer_future = connection.send(END)
        connection.close()
        with pytest.raises(ConnectionLostError):
            await answer_future
        await connection.wait_closed()


async def test_who_gives_up_waiting_leaves_nothing_behind() -> None:
    async with broker(handshake=lambda _: SILENCE) as fake:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await connect(fake)


async def test_a_bad_token_is_refused_after_its_reason_was_seen() -> None:
    bearer_security = msgspec.structs.replace(
        PLAIN, mechanism="OAUTHBEARER", credential=Bearer(claims={"sub": "alice"})
    )
    refuses = in_turn(lets_in(token=b'{"status":"invalid_token"}'), lets_in(error=58))
    async with broker(authenticate=refuses) as fake:
        with pytest.raises(AuthenticationError, match="who are you"):
            await connect(fake, bearer_security)
        assert fake.asked[-1].message.auth_bytes == b"\x01"


def test_the_first_version_tells_no_lifetime() -> None:
    authentication = Authentication(PLAIN, now_ms=0, nonce="n")
    shaken = ReceivedRequest(ClientApi.SASL_HANDSHAKE, 1, None).answer(
        error_code=0, mechanisms=("PLAIN",)
    )
    assert authentication.take(shaken) is not None
    answer = ReceivedRequest(ClientApi.SASL_AUTHENTICATE, 0, None).answer(
        error_code=0, error_message=None, auth_bytes=b""
    )
    assert authentication.take(answer) is None
    assert authentication.lifetime_ms == 0


async def test_tls_that_fails_is_no_lost_connection(tmp_path: Path) -> None:
    loop = asyncio.get_running_loop()
    clock = RealClock(loop)
    authority = Authority(tmp_path, now_ms=clock.now_ms())
    pair = authority.issue("broker", hosts=("127.0.0.1",))
    files = TlsFiles(certificate=str(pair.certificate), key=str(pair.key))
    context = server_context(files, ClientAuth.NONE)
    server = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    security = ClientSecurity(protocol=SecurityProtocol.SSL)
    settings = ClientSettings(security=security)
    with pytest.raises(AuthenticationError, match=r"TLS handshake with .* failed"):
        await Connection.open(
            "127.0.0.1", port, settings=settings, clock=clock, tls=client_context(security.tls)
        )
    server.close()
    await server.wait_closed()


async def test_an_alert_after_the_handshake_is_a_failure_of_it() -> None:
    async with broker() as fake:
        connection = await connect(fake)
        answer_future = connection.send(END)
        connection.connection_lost(ssl.SSLError(1, "certificate required"))
        with pytest.raises(AuthenticationError, match="certificate required"):
            await answer_future


async def test_bad_certificates_are_reported_at_once() -> None:
    security = ClientSecurity(protocol=SecurityProtocol.SSL, tls=ClientTls(authority="a"))
    with pytest.raises(ConfigError, match="of the client"):
        Cluster("127.0.0.1:1", settings=ClientSettings(security=security))
