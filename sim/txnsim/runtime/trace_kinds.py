"""The kinds of trace events: name, importance, what happened, and the fields of the payload.

The table is the documentation; the docs page is made from it, and a strict tracer (tests) refuses a
kind or a field that is not in it. Payloads hold the *new* value of what changed, so that a reader
only assigns. Errors stand by name, partitions as ``topic-partition``. ``rule`` is the row of
docs/rules.md that explains a decision, a refusal, a marker or an append, and the name of the rule
that was armed on faults.
"""

from __future__ import annotations

from typing import Final

import msgspec

IMPORTANCE_MAX: Final = 2


PEER_POLLS: Final = frozenset({1, 63})
"""APIs with which brokers poll each other all the time: Fetch and BrokerHeartbeat."""
PEER_ROUTINE: Final = PEER_POLLS | {24, 27}
"""APIs whose messages between brokers have importance 0: ``PEER_POLLS``, and AddPartitionsToTxn and
WriteTxnMarkers, whose effects have events of their own (``verify.*``, ``txn.decide``,
``marker.*``).
"""


class EventKind(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of event, as readers need it."""

    name: str
    importance: int
    """0 hidden at first (timers, connections, polls), 1 ordinary, 2 essential to the story."""
    meaning: str
    lower: str
    """Which events of this kind have importance 0 nevertheless; empty for none."""
    fields: frozenset[str]
    """Names of fields that the payload may have."""


def _kind(
    name: str, importance: int, field_names: str, meaning: str, *, lower_name: str = ""
) -> EventKind:
    return EventKind(
        name=name,
        importance=importance,
        meaning=meaning,
        lower=lower_name,
        fields=frozenset(field_names.split()),
    )


_BROKER_REQUESTS_TEXT: Final = (
    "between brokers: Fetch, BrokerHeartbeat, AddPartitionsToTxn and WriteTxnMarkers, whose ends "
    "have events of their own"
)
_CLIENT_EVENTS_TEXT: Final = "at a client of ours, whose calls and results have events of their own"
_MESSAGE_FIELDS: Final = "api version correlation bytes peer instance response summary error"
_TXN_FIELDS: Final = (
    "state pending pid epoch last_epoch timeout_ms started_ms partitions version level"
)
_RECORDS_FIELDS: Final = (
    "tp base last pid epoch seq txn opened control coordinator_epoch bytes error rule"
)
_MARKER_FIELDS: Final = "pid epoch committed coordinator_epoch tp target attempt error rule"
_PRODUCER_FIELDS: Final = "tp pid epoch first last coordinator_epoch rule"
_SHARE_FIELDS: Final = "group tp start next held isolation"
_FAULT_FIELDS: Final = (
    "rule point action matched struck held delay_ms error api source target limit disarmed about"
)

_TABLE: Final = (
    _kind("node.up", 1, "role epoch listeners", "a broker, client or role started"),
    _kind("node.down", 1, "role reason", "it stopped or crashed"),
    _kind(
        "node.role",
        1,
        "role leader epoch tp replicas start end hw lso producers",
        "leadership or another role moved; a leader tells of its log as it finds it",
    ),
    _kind("node.state", 1, "state", "the controller made something else of a broker: fenced, …"),
    _kind(
        "leader.changed",
        1,
        "tp leader epoch isr replicas",
        "the controller made another broker the leader, or none (-1)",
    ),
    _kind("topic.deleted", 2, "topic partitions", "a topic is gone, with all that was open there"),
    _kind("cluster.reset", 2, "brokers", "the cluster is made anew: nothing of before is left"),
    _kind("trace.off", 2, "level", "recording stops; what follows is not in the trace"),
    _kind("conn.open", 0, "peer id", "a client's connection was accepted"),
    _kind("conn.close", 0, "peer id reason", "a client's connection ended"),
    _kind("conn.refuse", 1, "peer reason", "a broker ends a connection for what came over it"),
    _kind(
        "msg.send",
        1,
        _MESSAGE_FIELDS,
        "a request or response left its sender",
        lower_name=f"{_CLIENT_EVENTS_TEXT}, answers to clients without an error but those to"
        f" EndTxn; {_BROKER_REQUESTS_TEXT}",
    ),
    _kind(
        "msg.recv",
        1,
        _MESSAGE_FIELDS,
        "it reached its receiver, which handles it now",
        lower_name=f"{_CLIENT_EVENTS_TEXT}; {_BROKER_REQUESTS_TEXT}",
    ),
    _kind("msg.drop", 2, _MESSAGE_FIELDS + " reason", "it was lost; the parent is its sending"),
    _kind("msg.dup", 2, _MESSAGE_FIELDS, "it was delivered once more"),
    _kind("msg.hold", 2, _MESSAGE_FIELDS, "it waits at a fault point"),
    _kind(
        "reader.wait",
        1,
        "partitions client",
        "a consumer with read_committed waits at the last stable offset, and there is more",
    ),
    _kind("reader.end", 1, "client", "its wait has ended; the parent is its beginning"),
    _kind("client.call", 1, "call args", "a client of ours was asked to do something"),
    _kind("client.result", 1, "call result error", "what the call came to"),
    _kind("client.deliver", 1, "tp offset key value", "a consumer got a record"),
    _kind(
        "txn.decide",
        1,
        _TXN_FIELDS + " command asked error reason rule",
        "the coordinator decided a command",
    ),
    _kind(
        "txn.prepare",
        0,
        _TXN_FIELDS + " command",
        "a move is pending: its record is being appended",
    ),
    _kind(
        "txn.append",
        2,
        _TXN_FIELDS + " tp offset error rule",
        "its record is in the transaction log, or was refused",
        lower_name="the record is in the log",
    ),
    _kind("txn.complete", 2, _TXN_FIELDS, "a move took effect"),
    _kind(
        "txn.load", 1, "tp coordinator_epoch transactions entries", "a coordinator loaded its log"
    ),
    _kind("txn.unload", 1, "tp coordinator_epoch", "a coordinator let its part go"),
    _kind("marker.owed", 1, _MARKER_FIELDS, "a coordinator owes a partition its marker"),
    _kind(
        "marker.sent",
        1,
        _MARKER_FIELDS,
        "WriteTxnMarkers is on its way",
        lower_name="the first attempt, which `marker.written` and `marker.acked` tell of",
    ),
    _kind("marker.written", 2, _MARKER_FIELDS + " offset", "the marker is in the partition's log"),
    _kind("marker.acked", 1, _MARKER_FIELDS, "the coordinator knows that it is written"),
    _kind("marker.refused", 2, _MARKER_FIELDS, "the leader refused it"),
    _kind(
        "marker.abandoned",
        2,
        _MARKER_FIELDS,
        "its coordinator does not send it again until it is loaded",
    ),
    _kind("marker.cancelled", 1, _MARKER_FIELDS + " reason", "it is owed no longer"),
    _kind("log.append", 1, _RECORDS_FIELDS, "a batch is in the log"),
    _kind("log.reject", 2, _RECORDS_FIELDS + " reason", "a batch was refused"),
    _kind(
        "log.duplicate", 1, _RECORDS_FIELDS, "a batch was there already; its old place is answered"
    ),
    _kind("log.hw", 0, "tp to", "the high watermark moved"),
    _kind(
        "log.lso",
        1,
        "tp to",
        "the last stable offset moved",
        lower_name="of `__transaction_state`, where nothing is transactional",
    ),
    _kind("log.start", 1, "tp to lso open reason", "the log start offset moved"),
    _kind("log.truncate", 2, "tp to epoch", "the end of a log was cut off"),
    _kind("log.aborted", 1, "tp pid first last lso", "an entry of the aborted index was written"),
    _kind(
        "pid.open",
        2,
        _PRODUCER_FIELDS + " timestamp",
        "a producer opened a transaction on a partition",
    ),
    _kind("pid.close", 1, _PRODUCER_FIELDS + " committed", "a marker closed it"),
    _kind(
        "pid.bump",
        1,
        _PRODUCER_FIELDS,
        "a producer's epoch rose on a partition",
        lower_name="of a transactional id, whose batch or marker tells the epoch",
    ),
    _kind("pid.expire", 1, _PRODUCER_FIELDS, "an idle producer was forgotten"),
    _kind("verify.ask", 0, "tp pid epoch add", "a leader asks the coordinator (KIP-890)"),
    _kind(
        "verify.answer",
        1,
        "tp pid epoch add waited_us error rule",
        "the answer, and what it means; `add`: the partition was to be added",
    ),
    _kind("group.offset_pending", 1, "group tp offset pid", "offsets were added to a transaction"),
    _kind("group.offset_commit", 1, "group tp offset pid", "a transaction's offsets took effect"),
    _kind("group.offset_abort", 1, "group tp offset pid", "a transaction's offsets were dropped"),
    _kind(
        "share.load",
        1,
        _SHARE_FIELDS + " end state_epoch leader_epoch error",
        "a leader has read the state of a share partition, or could not",
    ),
    _kind(
        "share.acquire",
        1,
        _SHARE_FIELDS + " member ranges",
        "a member got records, as `first-last:deliveries`; none where all that was read is aborted",
    ),
    _kind(
        "share.acknowledge",
        1,
        _SHARE_FIELDS + " member batches error",
        "what a member said of records, as `first-last:types`, is persisted, or was refused",
    ),
    _kind(
        "share.release",
        1,
        _SHARE_FIELDS + " member batches reason",
        "records are taken back from a member whose session or whose locks have ended, as "
        "`first-last:state:deliveries`",
    ),
    _kind(
        "share.persist",
        1,
        _SHARE_FIELDS + " batches error",
        "the share coordinator has a move, or could not take it, and then it is taken back",
    ),
    _kind("share.start", 1, _SHARE_FIELDS, "its log begins later, and the share partition with it"),
    _kind("share.unload", 1, "group tp", "a leader forgot a share partition"),
    _kind(
        "streams.member",
        1,
        "group member epoch state process active standby warmup revoked",
        "a member of a streams group has other tasks, or another epoch",
    ),
    _kind("streams.left", 1, "group member", "a member of a streams group is gone"),
    _kind("streams.unload", 1, "group", "a coordinator let a streams group go"),
    _kind("timer.fire", 1, "timer waited_ms", "a timer ran out, and there was something to do"),
    _kind("fault.arm", 2, _FAULT_FIELDS, "a fault rule waits for its crossing"),
    _kind(
        "fault.hit",
        2,
        _FAULT_FIELDS,
        "a crossing was struck; `about` tells whose it was: `id`, `pid` and `partitions` of each"
        " transaction",
    ),
    _kind("fault.release", 2, _FAULT_FIELDS, "held crossings go on; or the rule was disarmed"),
    _kind("input", 2, "do args at", "a user's action, the only thing a replay needs"),
    _kind("check.violation", 2, "rule subject expected found", "an invariant does not hold"),
    _kind("check.pass", 0, "rule subject", "an invariant was looked at and holds"),
    _kind(
        "snapshot",
        2,
        "trace features brokers coordinators faults partitions transactions owed positions shares"
        " streams part last",
        "what a reader needs to begin here; it comes in parts",
    ),
    _kind("note", 1, "text", "a remark for the reader"),
    _kind("goal", 2, "goal met", "a lesson's or scenario's goal was judged"),
)

KINDS: Final[dict[str, EventKind]] = {kind.name: kind for kind in _TABLE}
"""Every kind by its name."""
