"""What is asked of security, of both brokers: who is let in, who may do what.

A real broker and the simulator are started with the same ``server.properties``. What a real one has
answered is in ``transcripts/security/``; ``record_security`` keeps it, ``test_security`` holds
the simulator against it.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from tests.conformance.sasl_plays import PLAYS, SHORT_MS, Talk
from tests.support.apache_kafka import ApacheKafka, Listeners
from tests.support.broker_api import KEYS
from tests.support.denials import GuardedBroker
from tests.support.denied_requests import DESCRIBE_ORDERS, denials
from tests.support.patience import until
from tests.support.security import acl
from tests.support.txnsim_server import TxnsimServer
from tests.support.virtual_world import VirtualWorld
from txnsim.config import load
from txnsim.errors import ErrorCode
from txnsim.runtime.blocking_world import playing_in
from txnsim.security.acls import AclOperation, ResourceType
from txnsim.server.options import ClusterOptions

GROUP: Final = ResourceType.GROUP
_JOINS: Final[dict[str, Any]] = {
    "member_id": "m",
    "member_epoch": 0,
    "rebalance_timeout": 60_000,
    "topic_partitions": [],
}


def _join_until_assigned(ask: Callable[[], Any]) -> Any:
    """Send heartbeats that join until an answer assigns partitions; return the answer."""
    return until(
        ask,
        lambda answer: answer.assignment is not None and bool(answer.assignment.topic_partitions),
        "something is assigned",
    )


def _names(guarded_broker: GuardedBroker, answer: Any) -> list[str]:
    ids = {value: name for name, value in guarded_broker.ids.items()}
    return sorted(
        ids[topic_partition.topic_id] for topic_partition in answer.assignment.topic_partitions
    )


def _expression(guarded_broker: GuardedBroker, group: str, *rights: Any) -> list[str]:
    guarded_broker.allow(acl(GROUP, group, AclOperation.READ), *rights)
    joins = {**_JOINS, "group_id": group, "subscribed_topic_regex": "orders|hidden"}
    with guarded_broker.log_in("guest") as guest_connection:
        answer = _join_until_assigned(
            lambda: guest_connection.ask(KEYS["ConsumerGroupHeartbeat"], 1, **joins)
        )
    return _names(guarded_broker, answer)


def _expression_of_some(guarded_broker: GuardedBroker) -> Any:
    return _expression(guarded_broker, "regex-1", DESCRIBE_ORDERS)


def _expression_of_all(guarded_broker: GuardedBroker) -> Any:
    return _expression(guarded_broker, "regex-2", acl(ResourceType.TOPIC, "*", AclOperation.READ))


def _described_group(guarded_broker: GuardedBroker) -> Any:
    joins = {**_JOINS, "group_id": "shown", "subscribed_topic_names": ["orders", "hidden"]}
    _join_until_assigned(
        lambda: guarded_broker.admin.ask(KEYS["ConsumerGroupHeartbeat"], 1, **joins)
    )
    answers_seen = []
    describe_acl = acl(GROUP, "shown", AclOperation.DESCRIBE)
    for acl_bindings in ([], [DESCRIBE_ORDERS]):
        guarded_broker.allow(describe_acl, *acl_bindings)
        answer = guarded_broker.guest("ConsumerGroupDescribe", 1, {"group_ids": ["shown"]})
        answers_seen.append(guarded_broker.plainly(answer, api="ConsumerGroupDescribe"))
    return answers_seen


def _described_transaction(guarded_broker: GuardedBroker) -> Any:
    init_answer = _ask_until_settled(
        lambda: guarded_broker.admin.ask(
            KEYS["InitProducerId"], 4, transactional_id="ongoing", transaction_timeout=60_000
        )
    )
    topics = [{"name": name, "partitions": [0]} for name in ("orders", "hidden")]
    _ask_until_settled(
        lambda: guarded_broker.admin.ask(
            KEYS["AddPartitionsToTxn"],
            3,
            v3_and_below_transactional_id="ongoing",
            v3_and_below_producer_id=init_answer.producer_id,
            v3_and_below_producer_epoch=init_answer.producer_epoch,
            v3_and_below_topics=topics,
        )
    )
    describe_acl = acl(ResourceType.TRANSACTIONAL_ID, "ongoing", AclOperation.DESCRIBE)
    answers_seen = []
    for acl_bindings in ([], [DESCRIBE_ORDERS]):
        guarded_broker.allow(describe_acl, *acl_bindings)
        for api, version, values in (
            ("DescribeTransactions", 0, {"transactional_ids": ["ongoing"]}),
            ("ListTransactions", 1, {"duration_filter": -1}),
        ):
            answer = guarded_broker.plainly(guarded_broker.guest(api, version, values), api=api)
            for state in answer["transaction_states"]:
                state.pop("transaction_duration_ms", None)
            answers_seen.append(answer)
    return answers_seen


def _ask_until_settled(ask: Callable[[], Any]) -> Any:
    return until(
        ask,
        lambda answer: getattr(answer, "error_code", ErrorCode.none) is ErrorCode.none,
        "it is settled",
    )


HIDDEN: Final[dict[str, Callable[[GuardedBroker], Any]]] = {
    "an expression for topics of which one may be described": _expression_of_some,
    "an expression for topics that may all be described": _expression_of_all,
    "a group with topics that may not be described": _described_group,
    "a transaction with topics that may not be described": _described_transaction,
}
"""By name: what the guest sees."""


FOLDER: Final = Path(__file__).with_name("transcripts") / "security"
PROTOCOLS: Final = {"SASL": "SASL_PLAINTEXT", "SHORT": "SASL_PLAINTEXT"}
_MODULES: Final = "org.apache.kafka.common.security."
_LOGINS: Final = {
    "plain": 'plain.PlainLoginModule required user_admin="admin-secret" user_guest="guest-secret";',
    "scram-sha-256": "scram.ScramLoginModule required;",
    "oauthbearer": 'oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="b";',
}
PROPERTIES: Final = {
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
    "listener.name.short.connections.max.reauth.ms": str(SHORT_MS),
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:admin",
    **{
        f"listener.name.{listener.lower()}.{mechanism}.sasl.jaas.config": _MODULES + login
        for listener in PROTOCOLS
        for mechanism, login in _LOGINS.items()
    },
}
"""What both brokers are started with."""

Answers = dict[str, Any]
"""Name of a question, or of a play -> what was answered."""


@contextlib.contextmanager
def kafka() -> Iterator[dict[str, str]]:
    """Start a real broker; the addresses of its listeners."""
    with ApacheKafka(
        listeners=Listeners(PROTOCOLS, PROPERTIES), jvm_options=("-Xmx512m",)
    ) as broker:
        yield {protocol_name: broker.bootstrap_at(protocol_name) for protocol_name in PROTOCOLS}


@contextlib.contextmanager
def simulator() -> Iterator[dict[str, str]]:
    """Start a simulated broker with the same properties in a process; its addresses."""
    with _config() as file, TxnsimServer(brokers=1, arguments=("--config", str(file))) as server:
        yield server.ready["security"]["bootstrap"]


@contextlib.contextmanager
def virtual() -> Iterator[dict[str, str]]:
    """Start our broker in virtual time; requests made inside are made in its time."""
    with _config() as file:
        options = load(file).onto(ClusterOptions(brokers=1, port=0))
    with VirtualWorld(options) as cluster, playing_in(cluster):
        yield {protocol_name: cluster.bootstrap_of(protocol_name) for protocol_name in PROTOCOLS}


@contextlib.contextmanager
def _config() -> Iterator[Path]:
    listeners = {"PLAINTEXT": "PLAINTEXT", **PROTOCOLS}
    own_properties = {
        "listeners": ",".join(f"{listener_name}://127.0.0.1:0" for listener_name in listeners),
        "listener.security.protocol.map": ",".join(map(":".join, listeners.items())),
    }
    with tempfile.TemporaryDirectory(prefix="txnsim-security-") as directory:
        file = Path(directory, "server.properties")
        lines = (
            f"{name}={property_value}\n"
            for name, property_value in {**own_properties, **PROPERTIES}.items()
        )
        file.write_text("".join(lines))
        yield file


def answers_to_denied(addresses: Mapping[str, str]) -> Answers:
    """The answers to the requests that a guest may not send."""
    guarded_broker = GuardedBroker(addresses["SASL"])
    try:
        answer_by_denial: Answers = {}
        for denial in denials():
            assert denial.name not in answer_by_denial, denial.name
            answer_by_denial[denial.name] = denial.ask_guest(guarded_broker)
        return answer_by_denial
    finally:
        guarded_broker.close()


def answers_with_hidden(addresses: Mapping[str, str]) -> Answers:
    """The answers to requests of which a guest may see a part."""
    guarded_broker = GuardedBroker(addresses["SASL"])
    try:
        return {name: play(guarded_broker) for name, play in HIDDEN.items()}
    finally:
        guarded_broker.close()


def let_in(addresses: Mapping[str, str]) -> Answers:
    """The answers to the plays of SASL; meanwhile another connection must get its answers."""
    onlooking_talk = Talk(addresses, "SASL")
    try:
        onlooking_talk.log_in()
        answer_by_play: Answers = {name: play(addresses) for name, play in PLAYS.items()}
        onlooking_talk.still_there()
    finally:
        onlooking_talk.close()
    return {**answer_by_play, "somebody who looks on": onlooking_talk.said}


KINDS: Final = {"denied": answers_to_denied, "hidden": answers_with_hidden, "let_in": let_in}
"""What is recorded, by the name of its file."""


def path_of(kind: str) -> Path:
    """Path of the file with a real broker's answers."""
    return FOLDER / f"{kind}.jsonl"


def recorded_answers(kind: str) -> Answers:
    """The stored answers of a real broker."""
    lines = path_of(kind).read_text().splitlines()
    return {row["name"]: row["answer"] for row in map(json.loads, lines)}


def differences(kind: str, answers: Answers) -> dict[str, tuple[Any, Any]]:
    """The stored and the present answer by name, where they differ."""
    kept_answers = recorded_answers(kind)
    pair_by_name = {
        name: (kept_answers.get(name), answers.get(name))
        for name in kept_answers.keys() | answers.keys()
    }
    return {name: pair for name, pair in sorted(pair_by_name.items()) if pair[0] != pair[1]}


def write(kind: str, answers: Answers) -> None:
    """Store answers, one on each line."""
    FOLDER.mkdir(exist_ok=True)
    rows = (json.dumps({"name": name, "answer": answer}) for name, answer in answers.items())
    path_of(kind).write_text("".join(f"{row}\n" for row in rows))
