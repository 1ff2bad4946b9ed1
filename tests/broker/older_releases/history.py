"""What releases from 2.8 to 4.4 did differently about transactions without a switch for it here.

Together with ``txnsim.releases.rules`` this is the whole list of tickets that were looked at.
"""

from __future__ import annotations

from typing import Final

import msgspec

from txnsim.releases import REFERENCE


class UnobservedChange(msgspec.Struct, frozen=True):
    """A change without a visible effect in this simulator."""

    ticket: str
    since: str
    change: str
    why: str


class TrunkChange(msgspec.Struct, frozen=True):
    """A change on trunk, or under review there, since the branch of 4.4 was cut (2026-08-13)."""

    ticket: str
    standing: str
    """``merged`` or ``open``, as of the last message that was read of it."""
    change: str
    here: str
    """Its switch, or why there is none."""


ON_TRUNK: Final = (
    TrunkChange(
        "KIP-1313: KAFKA-20923, KAFKA-20924",
        "merged",
        "request header v3 with the client instance id; OffsetDelete 1",
        "`--as-version 4.5`, see above",
    ),
    TrunkChange(
        "KIP-1313: #23651",
        "under review in October",
        "GetTelemetrySubscriptions 1 and PushTelemetry 1 take the id from the header",
        "`--as-version 4.5`, see above",
    ),
    TrunkChange(
        "KIP-1313: KAFKA-20926",
        "open in August",
        "clients send client id and instance id with the first request of a connection only",
        "a client; a broker of 4.5 takes both ways",
    ),
    TrunkChange(
        "KAFKA-21181: #23630",
        "merged by November",
        "a transaction coordinator checks that its broker still leads the partition, under the "
        "epoch at which it was loaded",
        "`coordinator_checks_leadership`",
    ),
    TrunkChange(
        "KAFKA-21181: review of #23630",
        "proposed, for a pull request of its own",
        "a commit without a transaction is ended as an abort is, so that a stale coordinator has "
        "to write and can't",
        "`empty_commits_are_ended`",
    ),
    TrunkChange(
        "KAFKA-20785: #23204",
        "merged 2026-08-31",
        "under transactions v2 a late commit that meets a timeout's abort is PRODUCER_FENCED",
        "`late_commit_is_fenced`",
    ),
    TrunkChange(
        "KAFKA-21581, KAFKA-21584",
        "open in November, for 4.5.0, 4.4.1 and 4.3.3",
        "a classic group of generation 0 that becomes a consumer group begins at an epoch of its "
        "own; ConsumerGroupHeartbeat answered member epoch 0",
        "no switch: 4.4.0 decides until there is a release to ask",
    ),
    TrunkChange(
        "KAFKA-21481: #24197",
        "open in November",
        "ListTransactions passes over partitions that the broker does not lead any more",
        "`lost_partitions_are_not_listed`",
    ),
    TrunkChange(
        "KAFKA-20292: #23688",
        "under review in November",
        "the assignor of a consumer group runs in a thread of its own; heartbeats go by the last "
        "target until the next one is written",
        "`assignors_run_in_background`, with either value of `consumer.assignor.offload.enable`; "
        "share and streams groups are left as they are",
    ),
    TrunkChange(
        "KIP-1349",
        "in vote in October",
        "how often a share coordinator writes a snapshot goes by bytes of updates, not by their "
        "number",
        "no setting of it has a name that we could read; what a group remembers is the same",
    ),
    TrunkChange(
        "#23750",
        "open in October",
        "cold snapshots of share partitions are written also after a round in which all were cold",
        "only the size of `__share_group_state` tells",
    ),
    TrunkChange(
        "#23723",
        "open in October",
        "a second uniform assignor, which spreads each topic by itself",
        "not registered as an assignor: no group can ask for it",
    ),
    TrunkChange(
        "KIP-1379",
        "under discussion in October",
        "assignors know racks only where the broker says so",
        "a broker here has one rack unless the configuration says another",
    ),
    TrunkChange(
        "KAFKA-20910: #23147",
        "merged on the day of the branch, in 4.4.0 or not",
        "AlterShareGroupOffsets raises the group's epoch",
        "4.4.0 decides: the answers are recorded from it",
    ),
    TrunkChange(
        "#23190",
        "merged 2026-08-18",
        "an InitializeShareGroupState that comes again leaves the state as it is",
        "`share_states_are_made_once`",
    ),
    TrunkChange(
        "KAFKA-20972: #23224",
        "merged 2026-08-21",
        "the share coordinator's methods take one key",
        "no behaviour",
    ),
    TrunkChange(
        "KAFKA-17375: #23162",
        "merged 2026-08-18",
        "a follower appends a batch that is larger than a segment may be since then",
        "segments are cut by size here, and a follower's batch is never refused for it",
    ),
    TrunkChange(
        "KAFKA-20845: #22969",
        "merged 2026-08-20",
        "a group coordinator does not flush an empty batch before large records",
        "in 4.2.2 and 4.4.0, too: see below",
    ),
    TrunkChange(
        "KAFKA-20865: #23152",
        "merged 2026-08-21",
        "to unregister a controller of the voter set is refused",
        "there is one controller here",
    ),
    TrunkChange(
        "KIP-939: #21735",
        "under review in November",
        "KeepPreparedTxn: a transaction is kept for the next client",
        "`--kip 939`, see [kip-text.md](kip-text.md#as-the-pull-request-has-it)",
    ),
)
"""Found in the history of trunk up to 2026-08-22, later in the mailing lists of issues, pull
requests and proposals, up to the end of November 2026. The list is as complete as these are.
"""

UNOBSERVED: Final = (
    UnobservedChange(
        "KIP-588",
        "2.7",
        "a fenced Produce is INVALID_PRODUCER_EPOCH instead of PRODUCER_FENCED",
        "older than every release here",
    ),
    UnobservedChange(
        "KIP-664",
        "2.8, 3.0",
        "DescribeProducers, then DescribeTransactions and ListTransactions",
        "the API versions say it",
    ),
    UnobservedChange(
        "KIP-730",
        "3.0",
        "blocks of producer ids come from the controller instead of from ZooKeeper",
        "2.8 asks our controller too; what its clients see is `never_waits_for_ids`",
    ),
    UnobservedChange(
        "KAFKA-14417",
        "3.4",
        "InitProducerId that gave up waiting for a block is COORDINATOR_LOAD_IN_PROGRESS instead "
        "of REQUEST_TIMED_OUT",
        "3.5 waits for a block with a limit; ours waits until it is there",
    ),
    UnobservedChange(
        "KAFKA-16570", "3.7.1, 3.8", "fenceProducers retries CONCURRENT_TRANSACTIONS", "a client"
    ),
    UnobservedChange(
        "KAFKA-18227, KAFKA-18401",
        "4.0",
        "clients do not mix versions in one transaction and do not commit without records",
        "clients",
    ),
    UnobservedChange(
        "KAFKA-18464, KAFKA-18662",
        "4.0",
        "races of an end under transactions v2 with the add of the next transaction",
        "mended before the first release with transactions v2",
    ),
    UnobservedChange(
        "KIP-896",
        "4.0",
        "old API versions are gone",
        "the lowest versions are those of the newest in every release: no client needs the others",
    ),
    UnobservedChange(
        "KAFKA-17492",
        "3.9",
        "ApiVersions v4 shows features that begin at level 0",
        "the API versions say it",
    ),
    UnobservedChange(
        "KAFKA-20031, KAFKA-20058, KAFKA-20114",
        "4.3, 4.3, 4.4",
        "races of two threads about the next block of producer ids",
        "one event loop, and a controller that gives no block twice",
    ),
    UnobservedChange(
        "KAFKA-20634",
        "4.2.2, 4.3.1, 4.4",
        "a group coordinator that is about to be unloaded completes no commit by the high "
        "watermark of its partition's new leader",
        "here a broker unloads its groups in the step in which it becomes a follower: there is no "
        "moment between in which an acknowledged position could be lost. On real brokers there is, "
        "while the unloading waits for a thread: 4.0.2, 4.1.2, 4.2.1, 4.3.0 answer such a commit "
        "without an error, 4.2.2, 4.3.1 and 4.4.0 NOT_COORDINATOR (tests/real/FOUND.md)",
    ),
    UnobservedChange(
        "KAFKA-20845",
        "4.2.2, 4.4",
        "a group coordinator does not flush an empty batch before records that are as large as a "
        "batch may be",
        "here each operation of a group is a batch of its own",
    ),
    UnobservedChange(
        "KAFKA-20739",
        "open",
        "KeepPreparedTxn of InitProducerId v6",
        f"no release up to {REFERENCE.patch_release} advertises v6",
    ),
    UnobservedChange(
        "no ticket known",
        "open",
        "lowering transaction.version from 2 to 0 under live transactions answers "
        "UNSUPPORTED_VERSION and locks the transactional id until its coordinator moves",
        f"all up to {REFERENCE.patch_release} that have the feature do so, and so do we",
    ),
)
