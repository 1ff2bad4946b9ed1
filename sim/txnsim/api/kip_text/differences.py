"""What the KIPs say, next to what Apache Kafka ships.

Each row has a test that asks both listeners of a cluster, or the reason why there can be none
(``tests/broker/kip_text``). DEVIATIONS.md shows the table: on an ordinary listener we are as
shipped, on that of ``--kip-text`` as the text.
"""

from __future__ import annotations

from typing import Final

import msgspec


class KipTextDifference(msgspec.Struct, frozen=True, kw_only=True):
    """One point where a KIP's text and a Kafka release disagree."""

    row: str
    """Its name: the number of the KIP and a word."""
    text: str
    shipped: str
    where: str
    """Our module that follows the text; if there is none, the module that does as Kafka ships."""
    unheld: str | None = None
    """Why the text's behaviour can't be offered, if so."""


_NAMES: Final = "names of fields are not on the wire"

DIFFERENCES: Final = (
    KipTextDifference(
        row="664-flags",
        text="the tool takes --list, --describe, --abort and --find-hanging, with --broker; --list "
        "filters by broker, state and producer id; --describe --topic --partition tells of "
        "producers; --abort has --transaction-start-offset",
        shipped="sub-commands; list has none of these filters, elsewhere it is --broker-id; "
        "describe-producers; --start-offset",
        where="sim/txnsim/cli/_txns/kip_text.py",
    ),
    KipTextDifference(
        row="664-columns",
        text="the tool's tables tell CurrentTxnStartTimestamp and Duration(s)",
        shipped="CurrentTransactionStartTimeMs and TransactionDurationMs of an id, Duration(min) "
        "of what hangs, nothing of a partition's producers",
        where="sim/txnsim/cli/_txns/kip_text.py",
    ),
    KipTextDifference(
        row="664-find-hanging",
        text="--max-transaction-timeout is required, in seconds, and epochs are compared",
        shipped="15 minutes by default, in minutes, no epochs; --topic or --broker-id is required",
        where="sim/txnsim/client/inspection/judgement.py",
        unheld="one word in two units would be a trap, so minutes stay minutes and 15 the default; "
        "epochs are compared by txnsim txns find-hanging --all, which asks for no scope either",
    ),
    KipTextDifference(
        row="664-markers",
        text="WriteTxnMarkers v1 names partitions with a tagged start offset; coordinator epoch -1 "
        "is an operator's abort, judged by exact epoch (INVALID_PRODUCER_EPOCH) and by the "
        "transaction that is open since there (INVALID_TXN_STATE)",
        shipped="v1 is v0 made flexible, no start offset, and -1 is an epoch like any other",
        where="sim/txnsim/api/kip_text/_write_txn_markers.py",
    ),
    KipTextDifference(
        row="664-authorization",
        text="WriteTxnMarkers needs CLUSTER_ACTION on the cluster",
        shipped="ALTER on the cluster will do",
        where="sim/txnsim/api/kip_text/_write_txn_markers.py",
    ),
    KipTextDifference(
        row="664-describe-layout",
        text="DescribeTransactions v0 has the state as an int8, -1 for unknown, and an int32 epoch",
        shipped="the state by name, an int16 epoch, partitions by topic",
        where="sim/txnsim/api/_transactions/describe_transactions.py",
        unheld="KIP-994's version 1 builds on the layout that was shipped, so both texts can't be "
        "had; the newer one is followed",
    ),
    KipTextDifference(
        row="664-start-time",
        text="no start time and no partitions whenever no transaction is in progress",
        shipped="no start time in Empty only; a finished transaction keeps its old start",
        where="sim/txnsim/api/kip_text/_describe_transactions.py",
    ),
    KipTextDifference(
        row="664-list-names",
        text="ListTransactions has StatesFilter and ProducerIdFilter, and answers transactions",
        shipped="StateFilters and ProducerIdFilters, and UnknownStateFilters in the answer",
        where="sim/txnsim/api/_transactions/list_transactions.py",
        unheld=f"{_NAMES}, and clients of every release expect the answer's further field in "
        "version 0",
    ),
    KipTextDifference(
        row="664-producers-layout",
        text="DescribeProducers has TxnStartOffset and no error messages",
        shipped="CurrentTxnStartOffset as the last field, and an ErrorMessage for each partition",
        where="sim/txnsim/api/_transactions/describe_producers.py",
        unheld=f"{_NAMES}, and clients of every release expect the shipped layout in version 0, "
        "the only one there is",
    ),
    KipTextDifference(
        row="664-abort-spec",
        text="Admin.abortTransaction names either a start offset or a coordinator epoch",
        shipped="producer id, producer epoch and coordinator epoch",
        where="sim/txnsim/client/_txn_admin.py",
    ),
    KipTextDifference(
        row="890-end-txn",
        text="EndTxn v4 bumps the epoch and returns the identity to go on with",
        shipped="that is v5; v4 announces an error only",
        where="sim/txnsim/api/kip_text/table.py",
    ),
    KipTextDifference(
        row="890-versions",
        text="one new version of Produce, and of TxnOffsetCommit, both adds implicitly and knows "
        "TRANSACTION_ABORTABLE",
        shipped="two: Produce v11 and TxnOffsetCommit v4 for the error, v12 and v5 for the add",
        where="sim/txnsim/api/kip_text/_produce.py",
    ),
    KipTextDifference(
        row="890-abortable",
        text="any failure of the server is TRANSACTION_ABORTABLE (as kip_text.errors reads it)",
        shipped="it is originated by the verification at the coordinator alone",
        where="sim/txnsim/api/kip_text/_errors.py",
    ),
    KipTextDifference(
        row="890-verification",
        text="a partition that is not part of the transaction is INVALID_TXN_STATE",
        shipped="TRANSACTION_ABORTABLE at the coordinator, which leaders put as INVALID_TXN_STATE "
        "for old clients",
        where="sim/txnsim/api/kip_text/_add_partitions_to_txn.py",
    ),
    KipTextDifference(
        row="890-add-versions",
        text="AddPartitionsToTxn has versions 0 to 4",
        shipped="0 to 5",
        where="sim/txnsim/api/kip_text/table.py",
    ),
    KipTextDifference(
        row="890-tag-names",
        text="the log's tagged fields are PrevProducerId and NextProducerId",
        shipped="PreviousProducerId and NextProducerId, unwritten before 4.3, and further tags",
        where="sim/txnsim/txn/log_format.py",
        unheld="names of fields are not in the bytes; the tags are the same",
    ),
    KipTextDifference(
        row="890-last-identity",
        text="a coordinator that loads knows the last producer id and epoch again",
        shipped="the last epoch is lost, so a repeated InitProducerId is fenced",
        where="sim/txnsim/txn/kip_text.py",
    ),
    KipTextDifference(
        row="890-tags-cleared",
        text="the previous producer id is no longer logged once the transaction is over",
        shipped="from 4.3 on it is in every record",
        where="sim/txnsim/txn/kip_text.py",
    ),
    KipTextDifference(
        row="890-empty-end",
        text="nothing is said of ending a transaction without partitions",
        shipped="an abort of Empty or CompleteX bumps the epoch, a commit is INVALID_TXN_STATE",
        where="sim/txnsim/txn/machine_end.py",
    ),
    KipTextDifference(
        row="890-offset-commit",
        text="TxnOffsetCommit puts every retriable error of the coordinator as "
        "COORDINATOR_NOT_AVAILABLE",
        shipped="errors pass, but NETWORK_EXCEPTION is COORDINATOR_LOAD_IN_PROGRESS, and "
        "NOT_ENOUGH_REPLICAS, UNKNOWN_TOPIC_OR_PARTITION and REQUEST_TIMED_OUT are "
        "COORDINATOR_NOT_AVAILABLE",
        where="sim/txnsim/api/kip_text/_txn_offset_commit.py",
    ),
    KipTextDifference(
        row="890-verification-retriable",
        text="retriable errors of the verification of an offset commit are "
        "COORDINATOR_NOT_AVAILABLE",
        shipped="each has an error of its own (CoordinatorOperationExceptionHelper)",
        where="sim/txnsim/api/kip_text/_txn_offset_commit.py",
    ),
    KipTextDifference(
        row="890-produce-retriable",
        text="retriable errors of the verification of a Produce are NOT_ENOUGH_REPLICAS",
        shipped="but CONCURRENT_TRANSACTIONS stays what it is from v12 on, after 100 ms of trying",
        where="sim/txnsim/api/kip_text/_errors.py",
    ),
    KipTextDifference(
        row="890-sequence",
        text="a first sequence other than 0 is OUT_OF_ORDER_SEQUENCE_NUMBER",
        shipped="since 4.1, under transactions v2",
        where="sim/txnsim/log/leader_append.py",
    ),
    KipTextDifference(
        row="890-downgrade",
        text="lowering transaction.version is harmless",
        shipped="from 2 to 1; from 2 to 0 a live transaction of version 2 can't be logged any more",
        where="sim/txnsim/coordinators/txn/_transition_effects.py",
    ),
    KipTextDifference(
        row="939-keep-prepared",
        text="InitProducerId v6 is advertised; with KeepPreparedTxn it keeps the open transaction "
        "and answers with its identity and with the next one, under which it is ended",
        shipped="v6 is unstable and not advertised; KeepPreparedTxn is UNSUPPORTED_VERSION",
        where="sim/txnsim/txn/two_phase.py",
    ),
    KipTextDifference(
        row="994-flag",
        text="the tool takes --durationFilter",
        shipped="--duration-filter",
        where="sim/txnsim/cli/_txns/kip_text.py",
    ),
    KipTextDifference(
        row="994-tool-duration",
        text="the tool tells last update minus start as the duration of a finished transaction, -1 "
        "where it is not known",
        shipped="now minus start, which grows for ever",
        where="sim/txnsim/cli/_txns/kip_text.py",
    ),
    KipTextDifference(
        row="994-duration",
        text="a DurationFilter of 0 filters nothing, a greater one lets through what has been "
        "running for longer; durationFilter(Duration) in Java",
        shipped="-1 filters nothing, 0 filters, and what is over counts from its old start; "
        "filterOnDuration(long)",
        where="sim/txnsim/api/kip_text/_list_transactions.py",
    ),
    KipTextDifference(
        row="994-last-update",
        text="DescribeTransactions v1 has TransactionLastUpdateTimeMs",
        shipped="never: there is only v0, and the tool tells now minus start",
        where="sim/txnsim/api/kip_text/_describe_transactions.py",
    ),
    KipTextDifference(
        row="1152-pattern",
        text="ListTransactions filters by a pattern",
        shipped="v2, and the pattern is RE2/J's and must match all of the id",
        where="sim/txnsim/txn/list_filter.py",
    ),
    KipTextDifference(
        row="1228-markers",
        text="WriteTxnMarkers says the transaction version",
        shipped="v2, and what is missing counts as 0, which is the lenient check",
        where="sim/txnsim/log/leader_append.py",
    ),
)
