"""What releases from 2.8 to 4.4 did differently about transactions without a switch for it here.

Together with ``txnsim.releases.rules`` this is the whole list of tickets that were looked at.
"""

from __future__ import annotations

from typing import Final

import msgspec

from txnsim.releases import REFERENCE


class Unobserved(msgspec.Struct, frozen=True):
    """A change without a visible effect in this simulator."""

    ticket: str
    since: str
    change: str
    why: str


UNOBSERVED: Final = (
    Unobserved(
        "KIP-588",
        "2.7",
        "a fenced Produce is INVALID_PRODUCER_EPOCH instead of PRODUCER_FENCED",
        "older than every release here",
    ),
    Unobserved(
        "KIP-664",
        "2.8, 3.0",
        "DescribeProducers, then DescribeTransactions and ListTransactions",
        "the API versions say it",
    ),
    Unobserved(
        "KIP-730",
        "3.0",
        "blocks of producer ids come from the controller instead of from ZooKeeper",
        "2.8 asks our controller too; what its clients see is `never_waits_for_ids`",
    ),
    Unobserved(
        "KAFKA-14417",
        "3.4",
        "InitProducerId that gave up waiting for a block is COORDINATOR_LOAD_IN_PROGRESS instead "
        "of REQUEST_TIMED_OUT",
        "3.5 waits for a block with a limit; ours waits until it is there",
    ),
    Unobserved(
        "KAFKA-16570", "3.7.1, 3.8", "fenceProducers retries CONCURRENT_TRANSACTIONS", "a client"
    ),
    Unobserved(
        "KAFKA-18227, KAFKA-18401",
        "4.0",
        "clients do not mix versions in one transaction and do not commit without records",
        "clients",
    ),
    Unobserved(
        "KAFKA-18464, KAFKA-18662",
        "4.0",
        "races of an end under transactions v2 with the add of the next transaction",
        "mended before the first release with transactions v2",
    ),
    Unobserved(
        "KIP-896",
        "4.0",
        "old API versions are gone",
        "the lowest versions are those of the newest in every release: no client needs the others",
    ),
    Unobserved(
        "KAFKA-17492",
        "3.9",
        "ApiVersions v4 shows features that begin at level 0",
        "the API versions say it",
    ),
    Unobserved(
        "KAFKA-20031, KAFKA-20058, KAFKA-20114",
        "4.3, 4.3, 4.4",
        "races of two threads about the next block of producer ids",
        "one event loop, and a controller that gives no block twice",
    ),
    Unobserved(
        "KAFKA-20634",
        "4.2.2, 4.3.1, 4.4",
        "a group coordinator that is about to be unloaded completes no commit by the high "
        "watermark of its partition's new leader",
        "here a broker unloads its groups in the step in which it becomes a follower: there is no "
        "moment between in which an acknowledged position could be lost. On real brokers there is, "
        "while the unloading waits for a thread: 4.0.2, 4.1.2, 4.2.1, 4.3.0 answer such a commit "
        "without an error, 4.2.2, 4.3.1 and 4.4.0 NOT_COORDINATOR (tests/real/FOUND.md)",
    ),
    Unobserved(
        "KAFKA-20845",
        "4.2.2, 4.4",
        "a group coordinator does not flush an empty batch before records that are as large as a "
        "batch may be",
        "here each operation of a group is a batch of its own",
    ),
    Unobserved(
        "KAFKA-20739",
        "open",
        "KeepPreparedTxn of InitProducerId v6",
        f"no release up to {REFERENCE.patch_release} advertises v6",
    ),
    Unobserved(
        "no ticket known",
        "open",
        "lowering transaction.version from 2 to 0 under live transactions answers "
        "UNSUPPORTED_VERSION and locks the transactional id until its coordinator moves",
        f"all up to {REFERENCE.patch_release} that have the feature do so, and so do we",
    ),
)
