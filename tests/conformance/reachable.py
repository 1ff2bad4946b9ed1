"""What a random play can reach: at which states which requests can be answered how, as data.

A line of the map is an API, the way of it that a request takes, a state, and the outcomes that are
reachable there, as numbers of errors: 0 is accepted, ``new`` accepted with a new producer id.
``*`` after an outcome: it comes seldom, so long plays have to meet it at one level at least; ``?``:
it may come, but needs a coincidence that no play can be held to, such as a transaction that another
producer has open, or a transactional id that the last change of level has left waiting for good.
``@0`` or ``@12``: only at these levels of ``transaction.version``. ``Prepare``, ``Complete`` and
``log`` stand for two states each.
"""

from __future__ import annotations

from typing import Final

from tests.conformance.model import ABSENT, EMPTY, ONGOING
from tests.conformance.result import ACCEPTED, ACCEPTED_ANEW

MAP: Final = """
InitProducerId | plain              | absent         | 0
InitProducerId | plain              | Empty          | 0 new* 35@0? 51?
InitProducerId | plain              | Ongoing        | 51 35@0?
InitProducerId | plain              | Prepare        | 51
InitProducerId | plain              | Complete       | 0 new? 35@0? 51?
InitProducerId | plain              | any            | 42@12 42@0? 50*
InitProducerId | expected           | absent         | 0
InitProducerId | expected           | Empty          | 0 90 new? 35@0? 47@12 47@0? 51? -1?
InitProducerId | expected           | Ongoing        | 51 90? 35@0? 47?
InitProducerId | expected           | Prepare        | 51
InitProducerId | expected           | Complete       | 0@12 0@0? 90@12* 90@0? new? 35@0? 47* 51? -1?
InitProducerId | expected           | any            | 42 50*
InitProducerId | no transactional id| any            | 0
AddPartitionsToTxn | client         | absent         | 49
AddPartitionsToTxn | client         | Empty          | 0 47* 49* 90? 51*
AddPartitionsToTxn | client         | Ongoing        | 0 47* 49* 90* 51*
AddPartitionsToTxn | client         | Prepare        | 51
AddPartitionsToTxn | client         | Complete       | 0 47? 49? 90* 51*
AddPartitionsToTxn | client         | any            | 3 42* 55
AddPartitionsToTxn | broker         | absent         | 49
AddPartitionsToTxn | broker         | Empty          | 0@12 35@0? 49* 51? 90* 0@0?
AddPartitionsToTxn | broker         | Ongoing        | 0@12 0@0? 35@0? 49? 51? 90@12 90@0?
AddPartitionsToTxn | broker         | Prepare        | 51
AddPartitionsToTxn | broker         | Complete       | 0? 35@0? 49? 51? 90*
AddPartitionsToTxn | broker         | any            | 3@12 3@0? 42* 55@12 55@0?
AddPartitionsToTxn | verify         | absent         | 49
AddPartitionsToTxn | verify         | Empty          | 49* 90* 120 0?
AddPartitionsToTxn | verify         | Ongoing        | 0* 49* 90* 120*
AddPartitionsToTxn | verify         | Prepare        | 49* 51 90*
AddPartitionsToTxn | verify         | Complete       | 49? 90? 120*
AddPartitionsToTxn | verify         | any            | 3@12 3@0? 42? 55*
AddOffsetsToTxn | client            | absent         | 49
AddOffsetsToTxn | client            | Empty          | 0 47* 49* 90@12* 90@0? 51?
AddOffsetsToTxn | client            | Ongoing        | 0 47* 49* 90* 51*
AddOffsetsToTxn | client            | Prepare        | 51
AddOffsetsToTxn | client            | Complete       | 0 47* 49* 90* 51*
AddOffsetsToTxn | client            | any            | 42@12 42@0?
TxnOffsetCommit | old               | absent         | 0* 47* 49
TxnOffsetCommit | old               | Empty          | 0? 47* 48* 49?
TxnOffsetCommit | old               | Ongoing        | 0 47@12 47@0? 48 49@12 49@0?
TxnOffsetCommit | old               | Prepare        | 0? 47 49* 51
TxnOffsetCommit | old               | Complete       | 0? 47 48* 49*
TxnOffsetCommit | old               | any            | 3* -1?
TxnOffsetCommit | old, 120 known    | absent         | 0* 47? 49
TxnOffsetCommit | old, 120 known    | Empty          | 0? 47@12 47@0? 49? 120
TxnOffsetCommit | old, 120 known    | Ongoing        | 0 47 49? 120@12* 120@0?
TxnOffsetCommit | old, 120 known    | Prepare        | 0? 47* 49* 51
TxnOffsetCommit | old, 120 known    | Complete       | 0? 47* 49* 120*
TxnOffsetCommit | old, 120 known    | any            | 3? -1?
TxnOffsetCommit | new               | absent         | 0* 47? 49@12 49@0?
TxnOffsetCommit | new               | Empty          | 0@12* 0@0? 35@0? 47* 49* 51?
TxnOffsetCommit | new               | Ongoing        | 0@12 0@0? 35@0 47 49@12 49@0? 51*
TxnOffsetCommit | new               | Prepare        | 0? 47? 51
TxnOffsetCommit | new               | Complete       | 0* 35@0? 47@12 47@0? 49* 51?
TxnOffsetCommit | new               | any            | 3? -1?
EndTxn | old, commit                | absent         | 49
EndTxn | old, commit                | Empty          | 47@12 47@0? 48 49* 51? 90@12 90@0?
EndTxn | old, commit                | Ongoing        | 0 47? 49@12 49@0? 51* 90*
EndTxn | old, commit                | Prepare        | 47? 49? 51* 90*
EndTxn | old, commit                | CompleteCommit | 0 47? 49* 51? 90*
EndTxn | old, commit                | CompleteAbort  | 47 48 49* 51* 90*
EndTxn | old, commit                | any            | 42*
EndTxn | old, abort                 | absent         | 49*
EndTxn | old, abort                 | Empty          | 47* 48 49@12* 49@0? 51? 90
EndTxn | old, abort                 | Ongoing        | 0 47* 49* 51? 90?
EndTxn | old, abort                 | Prepare        | 47* 49* 51 90*
EndTxn | old, abort                 | CompleteCommit | 47* 48* 49? 51? 90*
EndTxn | old, abort                 | CompleteAbort  | 0 47* 49* 51? 90*
EndTxn | old, abort                 | any            | 42?
EndTxn | new, commit                | absent         | 49
EndTxn | new, commit                | Empty          | 48@12 48@0? 49* 51? 90
EndTxn | new, commit                | Ongoing        | 0@12 new? 35@0 49* 51* 90
EndTxn | new, commit                | Prepare        | 51@12 51@0?
EndTxn | new, commit                | CompleteCommit | 0 48* 49* 51? 90*
EndTxn | new, commit                | CompleteAbort  | 48 49? 51? 90*
EndTxn | new, commit                | any            | 42*
EndTxn | new, abort                 | absent         | 49
EndTxn | new, abort                 | Empty          | 0@12* new? 35@0 49* 51? 90*
EndTxn | new, abort                 | Ongoing        | 0@12 new? 35@0 49* 51? 90@12 90@0?
EndTxn | new, abort                 | Prepare        | 51
EndTxn | new, abort                 | CompleteCommit | 0@12? new? 35@0 48 49 51? 90*
EndTxn | new, abort                 | CompleteAbort  | 0 new? 35@0? 49* 51? 90*
EndTxn | new, abort                 | any            | 42?
(time-out) |                        | Ongoing        | CompleteAbort PrepareAbort?
Produce | old                       | absent         | 0? 47* 49
Produce | old                       | Empty          | 0 47* 48 49*
Produce | old                       | Ongoing        | 0 47 48 49
Produce | old                       | Prepare        | 0? 19 47 49*
Produce | old                       | Complete       | 0? 47 48* 49*
Produce | old                       | any            | 3* 10? 21* 45* 53
Produce | old, 120 known            | absent         | 0? 47* 49
Produce | old, 120 known            | Empty          | 0* 47* 49* 120*
Produce | old, 120 known            | Ongoing        | 0 47* 49? 120?
Produce | old, 120 known            | Prepare        | 0? 19* 47* 49*
Produce | old, 120 known            | Complete       | 0? 47 49? 120*
Produce | old, 120 known            | any            | 3* 10? 21? 45? 53*
Produce | new                       | absent         | 0? 47* 49
Produce | new                       | Empty          | 0@12 35@0 47 49* 51?
Produce | new                       | Ongoing        | 0@12 0@0* 35@0? 47 49* 51?
Produce | new                       | Prepare        | 0? 47@12 47@0? 51@12 51@0?
Produce | new                       | Complete       | 0@12* 35@0 47* 49* 51?
Produce | new                       | any            | 3* 10? 21* 45? 53@12 53@0? 100*
Produce | no transactional id       | log            | 0 47? 48?
Produce | no transactional id       | any            | 3* 10? 21* 45? 53? 100? closed? silent*
WriteTxnMarkers | v1                | log            | 0 47* 52?
WriteTxnMarkers | v1                | any            | -1* 3?
WriteTxnMarkers | v2                | log            | 0 47* 52?
WriteTxnMarkers | v2                | any            | -1* 3?
WriteTxnMarkers | operator's abort  | log            | 0? 47* 52?
WriteTxnMarkers | operator's abort  | any            | 3?
DescribeProducers |                 | log            | 0
DescribeProducers |                 | any            | 3?
DescribeTransactions |              | any            | 0 42? 105
ListTransactions |                  | any            | 0 128
ListOffsets | read_committed        | log            | 0
ListOffsets | read_committed        | any            | 3* 35?
ListOffsets | read_uncommitted      | log            | 0
ListOffsets | read_uncommitted      | any            | 3* 35*
Fetch | read_committed              | log            | 0 1*
Fetch | read_committed              | any            | 3* 100?
Fetch | read_uncommitted            | log            | 0 1*
Fetch | read_uncommitted            | any            | 3* 100*
DeleteRecords |                     | log            | 0? 1*
DeleteRecords |                     | any            | 3* 44?
UpdateFeatures | raise              | any            | 0@01
UpdateFeatures | lower              | any            | 0@12 95*
DeleteTopics |                      | any            | 0
CreateTopics |                      | any            | 0? 36*
CreatePartitions |                  | any            | 0* 3? 37?
IncrementalAlterConfigs | topic     | any            | 0 3?
IncrementalAlterConfigs | broker    | any            | 0@12 0@0?
"""

_TRANSACTIONAL: Final = "InitProducerId|AddPartitionsToTxn|AddOffsetsToTxn|EndTxn"
UNREACHABLE: Final = (
    (
        "Produce",
        "old.*|new",
        ".*",
        "the connection was closed|no answer, .*",
        "only producers without a transactional id are played without acknowledgements",
    ),
    (".*", ".*", ABSENT, ".*", "an id nobody knows: 49, or it is made"),
    (
        _TRANSACTIONAL,
        ".*",
        "Prepare.*",
        ".*",
        "the pending completion is told before anything else but what an old EndTxn checks first",
    ),
    (
        "Produce|TxnOffsetCommit",
        ".*",
        "Prepare.*",
        ".*",
        "the pending completion: 51, as 19 to old clients",
    ),
    (".*", ".*", ".*", "unsupported_version", "the record of level 0 has no place for its fields"),
    (
        ".*",
        ".*",
        ".*",
        ACCEPTED_ANEW,
        "a new producer id comes with an identity, after the last epoch",
    ),
    ("InitProducerId", "no transactional id", ".*", ".*", "everything else is ignored"),
    (
        "TxnOffsetCommit",
        "old.*",
        ".*",
        "concurrent_transactions",
        "verifying waits for nothing but a pending completion",
    ),
    (
        "TxnOffsetCommit",
        "old|new",
        ".*",
        "transaction_abortable",
        "older versions are told 48, newer ones add the partition",
    ),
    (
        "Produce|TxnOffsetCommit",
        "old, 120 known|new",
        ".*",
        "invalid_txn_state",
        "versions that know TRANSACTION_ABORTABLE are told that, newer ones add the partition",
    ),
    ("InitProducerId", ".*", ONGOING, ".*", "the open transaction is aborted first: told to wait"),
    ("InitProducerId", "plain", ".*", ".*", "nothing is expected, so nobody can be fenced"),
    (
        "AddPartitionsToTxn",
        "client|broker",
        ".*",
        "transaction_abortable",
        "only verifying says so",
    ),
    (
        "AddPartitionsToTxn",
        "broker|verify",
        ".*",
        "invalid_producer_epoch",
        "versions from 2 on are told PRODUCER_FENCED",
    ),
    (
        "AddPartitionsToTxn",
        "verify",
        ".*",
        ".*",
        "verifying changes nothing and does not wait for what is pending",
    ),
    (
        "EndTxn",
        "new.*",
        ".*",
        "invalid_producer_epoch",
        "versions from 2 on are told PRODUCER_FENCED",
    ),
    (
        "EndTxn",
        ".*",
        f"{EMPTY}|{ONGOING}|Complete.*",
        f"{ACCEPTED}|invalid_txn_state",
        "the state and the wanted end decide between the two",
    ),
    ("Produce", "no transactional id", ".*", ".*", "no coordinator is asked"),
    (
        "Produce",
        "old.*",
        ".*",
        "concurrent_transactions",
        "old clients are told NOT_ENOUGH_REPLICAS",
    ),
    (
        "Produce",
        "old|new",
        ".*",
        "transaction_abortable",
        "Produce 11 only: older versions are told 48, newer ones add the partition",
    ),
    (
        "Produce",
        ".*",
        ".*",
        "not_enough_replicas",
        "only for a coordinator that is to be waited for",
    ),
    ("Produce", "old.*", ".*", "unknown_topic_id", "Produce 13 alone has topic ids"),
)
"""(API, flow, state, outcome) as patterns, and why such a place is not on the map; the first one
counts.
"""
