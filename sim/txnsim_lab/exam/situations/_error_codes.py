"""Every request of a transaction, answered with every error code that it may get, in one table.

Yardstick: the handlers of Kafka's ``TransactionManager`` and ``Sender`` for retries, and the
Javadoc of ``KafkaProducer`` for what an application does after other errors. If a library asks for
a new producer and the Java client does not, or vice versa, it counts as a choice of the library.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from txnsim_lab.exam._application import Application
from txnsim_lab.exam.situation import ALL_LEVELS, PlaySituation, Situation, situation

ExpectedReaction = Literal["asked again", "aborted", "dead"]
"""What must follow: the library retries by itself; or the application aborts and goes on; or it
opens a new producer.
"""
LEVELS_WITH_ADDITIONS: Final = (0, 1)
"""Levels at which clients add partitions and groups by a request (KIP-890 ends that)."""

POSITION_REQUESTS: Final = ("AddOffsetsToTxn", "TxnOffsetCommit")
"""Requests that concern positions; a driver without ``send-offsets`` gets only the others."""
_RECORD_VALUES: Final = ("a-1", "b-2")
_POSITIONS: Final[dict[str, Any]] = {"group": "g", "position": 3}

_REACTION_TABLE: Final[tuple[tuple[str, ExpectedReaction, tuple[int, ...], str], ...]] = (
    ("FindCoordinator", "asked again", ALL_LEVELS, "COORDINATOR_NOT_AVAILABLE"),
    ("FindCoordinator", "dead", ALL_LEVELS, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
    ("InitProducerId", "asked again", ALL_LEVELS,
     "CONCURRENT_TRANSACTIONS NOT_COORDINATOR COORDINATOR_NOT_AVAILABLE"
     " COORDINATOR_LOAD_IN_PROGRESS REQUEST_TIMED_OUT"),
    ("InitProducerId", "dead", ALL_LEVELS,
     "TRANSACTIONAL_ID_AUTHORIZATION_FAILED PRODUCER_FENCED INVALID_PRODUCER_EPOCH"
     " INVALID_TRANSACTION_TIMEOUT"),
    ("AddPartitionsToTxn", "asked again", LEVELS_WITH_ADDITIONS,
     "CONCURRENT_TRANSACTIONS NOT_COORDINATOR COORDINATOR_NOT_AVAILABLE"
     " COORDINATOR_LOAD_IN_PROGRESS UNKNOWN_TOPIC_OR_PARTITION"),
    ("AddPartitionsToTxn", "dead", LEVELS_WITH_ADDITIONS,
     "PRODUCER_FENCED INVALID_PRODUCER_EPOCH INVALID_TXN_STATE INVALID_PRODUCER_ID_MAPPING"
     " TRANSACTIONAL_ID_AUTHORIZATION_FAILED TOPIC_AUTHORIZATION_FAILED"),
    ("AddOffsetsToTxn", "asked again", LEVELS_WITH_ADDITIONS,
     "CONCURRENT_TRANSACTIONS NOT_COORDINATOR COORDINATOR_NOT_AVAILABLE"
     " COORDINATOR_LOAD_IN_PROGRESS"),
    ("AddOffsetsToTxn", "dead", LEVELS_WITH_ADDITIONS,
     "PRODUCER_FENCED INVALID_PRODUCER_EPOCH INVALID_TXN_STATE INVALID_PRODUCER_ID_MAPPING"
     " GROUP_AUTHORIZATION_FAILED"),
    ("TxnOffsetCommit", "asked again", ALL_LEVELS,
     "NOT_COORDINATOR COORDINATOR_NOT_AVAILABLE COORDINATOR_LOAD_IN_PROGRESS"
     " UNKNOWN_TOPIC_OR_PARTITION REQUEST_TIMED_OUT"),
    ("TxnOffsetCommit", "aborted", ALL_LEVELS,
     "UNKNOWN_MEMBER_ID ILLEGAL_GENERATION FENCED_INSTANCE_ID"),
    ("TxnOffsetCommit", "aborted", (2,), "TRANSACTION_ABORTABLE"),
    ("TxnOffsetCommit", "dead", ALL_LEVELS,
     "PRODUCER_FENCED INVALID_PRODUCER_EPOCH GROUP_AUTHORIZATION_FAILED"),
    ("Produce", "asked again", ALL_LEVELS,
     "NOT_LEADER_OR_FOLLOWER NOT_ENOUGH_REPLICAS NOT_ENOUGH_REPLICAS_AFTER_APPEND"
     " UNKNOWN_TOPIC_OR_PARTITION REQUEST_TIMED_OUT KAFKA_STORAGE_ERROR CORRUPT_MESSAGE"),
    ("Produce", "aborted", ALL_LEVELS,
     "INVALID_PRODUCER_EPOCH UNKNOWN_PRODUCER_ID MESSAGE_TOO_LARGE INVALID_RECORD"
     " INVALID_TXN_STATE UNKNOWN_SERVER_ERROR"),
    ("Produce", "aborted", (2,), "TRANSACTION_ABORTABLE"),
    ("Produce", "dead", ALL_LEVELS,
     "OUT_OF_ORDER_SEQUENCE_NUMBER TOPIC_AUTHORIZATION_FAILED"
     " TRANSACTIONAL_ID_AUTHORIZATION_FAILED PRODUCER_FENCED INVALID_PRODUCER_ID_MAPPING"),
)  # fmt: skip
"""Request, expected reaction, levels, error codes. The first code of each row is a core
situation.
"""

_QUESTION_BY_REACTION: Final = {
    "asked again": "twice: is it asked again?",
    "aborted": "once: may the application abort, and go on?",
    "dead": "once: does the application learn it, and go on with a new producer?",
}


def _answer_with_error(api: str, error: str, expected_reaction: ExpectedReaction) -> PlaySituation:
    """Plays a transaction with records and positions; one request is answered with an error."""
    is_repeated = expected_reaction == "asked again"
    needs_positions = api in POSITION_REQUESTS

    async def play(app: Application) -> None:
        fault = await app.arm(
            point="client.request",
            api=api,
            limit=2 if is_repeated else 1,
            action={"do": "error", "error": error},
        )
        if is_repeated:
            await app.must_init()
            await app.must_transact(*_RECORD_VALUES, needs_positions=needs_positions, **_POSITIONS)
        elif (await app.init()).error is not None:
            await app.close("p")
        else:
            await app.transact(*_RECORD_VALUES, needs_positions=needs_positions, **_POSITIONS)
        await app.disarm(fault)
        takes_new = await app.goes_on()
        if takes_new is (expected_reaction == "aborted") and not is_repeated and fault.struck:
            app.names_of_choices.append(_CHOICES[takes_new])

    return play


_CHOICES: Final = {
    True: "a new producer is taken where the Java client's goes on after an abort",
    False: "the producer goes on where the Java client's has to be closed",
}


_YARDSTICK_BY_REACTION: Final[dict[ExpectedReaction, str]] = {
    "asked again": "Kafka's protocol calls {error} of {api} retriable. The Java client"
    " (TransactionManager, Sender) sends the request again, and the application does not learn of"
    " it.",
    "aborted": "By the Javadoc of KafkaProducer an application aborts after {error} of {api}, and"
    " goes on with the same producer. A new producer is a choice. The library has to say which, and"
    " who obeys must get on.",
    "dead": "By the Javadoc of KafkaProducer an application closes the producer after {error} of"
    " {api}. To abort and go on is a choice. The library has to say which, and who obeys must get"
    " on.",
}


def _situations_of_errors() -> list[Situation]:
    return [
        situation(
            f"{api}-{error}".lower().replace("_", "-"),
            "middle",
            f"{api} is answered {error}, {_QUESTION_BY_REACTION[expected_reaction]}",
            yardstick=_YARDSTICK_BY_REACTION[expected_reaction].format(error=error, api=api),
            levels=levels,
            groups=("g",),
            is_core=not error_index,
        )(_answer_with_error(api, error, expected_reaction))
        for api, expected_reaction, levels, error_names in _REACTION_TABLE
        for error_index, error in enumerate(error_names.split())
    ]


SITUATIONS: Final[tuple[Situation, ...]] = tuple(_situations_of_errors())
