"""The notebook for a class, with all answers: ``tests.handouts`` makes of it what learners and
their teacher get. A cell begins with ``# %%``. Learners write what a line has before ``# yours``,
and all that follows the comment of an exercise.
"""

# %% [markdown]
# # A transaction that hangs
#
# Forty minutes, alone or in pairs. Brokers of Kafka run in this notebook's own process: you can't
# break anything. Run each cell with Shift+Enter, in order. Where a line says `yours`, put your
# prediction in the place of `None` first.

# %%
import json
from pathlib import Path

from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError

from txnsim.testing import SimulatedKafka

kafka = SimulatedKafka(
    topics={"payments": 1},
    transaction_version=1,
    settings={"transaction.partition.verification.enable": False},
)
kafka.start()
predictions, goals = {}, {}


def producer(transactional_id, cluster=kafka, **settings):
    client = KafkaProducer(
        bootstrap_servers=cluster.bootstrap.split(","),
        transactional_id=transactional_id,
        **settings,
    )
    client.init_transactions()
    return client


def read():
    """What an application with isolation level read_committed gets of payments."""
    consumer = KafkaConsumer(
        "payments",
        bootstrap_servers=kafka.bootstrap.split(","),
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        consumer_timeout_ms=2_000,
    )
    with consumer:
        return [record.value.decode() for record in consumer]


def look():
    """The partition's log, and what coordinators know."""
    for record in kafka.topics.read("payments"):
        print(record.offset, record.value.decode(), record.fate.value)
    ends = kafka.topics.offsets("payments")
    print(f"last stable offset {ends.last_stable}, high watermark {ends.high_watermark}")
    for transaction in kafka.transactions.list():
        print(f"transactional id {transaction.transactional_id}: {transaction.state}")


def check(question, predicted, right):
    predictions[question] = predicted == right
    print("Right." if predicted == right else f"Not so. It is {right!r}.")


def goal(exercise, reached):
    goals[exercise] = bool(reached)
    print("Reached." if reached else "Not yet.")


# %% [markdown]
# ## 1. A commit
#
# Two records and a commit. The commit writes a marker to the partition, which takes an offset.
# Below the last stable offset every transaction is decided.

# %%
shop = producer("shop")
shop.begin_transaction()
shop.send("payments", b"one")
shop.send("payments", b"two")
shop.commit_transaction()
kafka.transactions.wait_for_state("shop", "CompleteCommit")

# %%
last_stable = 3  # yours: an offset

# %%
check("the last stable offset", last_stable, kafka.topics.offsets("payments").last_stable)
look()

# %% [markdown]
# ## 2. A transaction that takes long
#
# Another producer begins a transaction, and does not end it yet. Behind its record `shop` commits
# `three`.

# %%
slow = producer("slow")
slow.begin_transaction()
slow.send("payments", b"slow").get(30)
shop.begin_transaction()
shop.send("payments", b"three")
shop.commit_transaction()
kafka.transactions.wait_for_state("shop", "CompleteCommit")

# %%
application_gets = ["one", "two"]  # yours: a list, such as ["one"]

# %%
check("what is read before slow ends", application_gets, read())
look()

# %% [markdown]
# Now `slow` aborts.

# %%
slow.abort_transaction()
kafka.transactions.wait_for_state("slow", "CompleteAbort")

# %%
application_gets = ["one", "two", "three"]  # yours: a list

# %%
check("what is read after slow has aborted", application_gets, read())
look()

# %% [markdown]
# ## 3. A record that comes late
#
# The network holds a record back. Its producer gives up and aborts. Then the record arrives at its
# partition, whose leader does not verify here.


# %%
def late_record(cluster=kafka):
    """A record of the transactional id late, which arrives after the abort."""
    late_producer = producer(
        "late", cluster, delivery_timeout_ms=1_500, request_timeout_ms=1_000, retry_backoff_ms=10,
        linger_ms=0,
    )  # fmt: skip
    late_producer.partitions_for("payments")
    late_producer.begin_transaction()
    request = {"api": "Produce", "transactional_id": "late"}
    held_request = cluster.faults.arm(point="client.request", action="hold", **request)
    passed_answer = cluster.faults.arm(point="client.response", action="pass", **request)
    sent = late_producer.send("payments", b"late", partition=0)
    held_request.wait_until_struck()
    try:
        sent.get(30)
    except KafkaError as error:
        print(f"The producer gives up: {type(error).__name__}.")
    late_producer.abort_transaction()
    cluster.transactions.wait_for_state("late", "CompleteAbort", "Empty")
    print("Aborted, says the coordinator. Now the record arrives.")
    held_number = held_request.held
    held_request.release()
    passed_answer.wait_until_struck(held_number)
    held_request.disarm()
    late_producer.close(1)


late_record()

# %%
is_open_on_the_partition = True  # yours: True or False
state_at_the_coordinator = "CompleteAbort"  # yours: "Ongoing", "PrepareAbort" or "CompleteAbort"

# %%
check("is it open on the partition?", is_open_on_the_partition, bool(kafka.transactions.hanging()))
check(
    "its state at the coordinator",
    state_at_the_coordinator,
    kafka.transactions.describe("late").state,
)
look()

# %% [markdown]
# Two hours pass. Every transaction's timeout is over.

# %%
kafka.clock.advance("2h")
something_has_ended_it = False  # yours: True or False

# %%
check("has its timeout ended it?", something_has_ended_it, not kafka.transactions.hanging())
for transaction in kafka.transactions.hanging():
    print(transaction.reason)

# %% [markdown]
# ## 4. Exercises
#
# The dots say how hard. `kafka.transactions`, `kafka.faults`, `look()` and `late_record()` are all
# that you need; `help(kafka.transactions)` says more.

# %% exercise
# ● Make payments readable again, as an operator does.
print(kafka.transactions.repair())

# %%
goal("payments is readable", not kafka.transactions.hanging())
look()

# %% exercise
# ●● Have a transaction of shop decided, and not ended: PrepareCommit. Its markers are requests
# "WriteTxnMarkers" between brokers: kafka.faults.arm(point="peer.request", api=..., action="hold").
markers = kafka.faults.arm(point="peer.request", api="WriteTxnMarkers", action="hold")
shop.begin_transaction()
shop.send("payments", b"four")
shop.commit_transaction()

# %%
goal("a marker is owed", kafka.transactions.describe("shop").state == "PrepareCommit")
look()

# %% exercise
# ●● Let it end well: "four" must be read. Nothing of it may be aborted.
markers.release()
markers.disarm()
kafka.transactions.wait_for_state("shop", "CompleteCommit")

# %%
goal("what was committed is read", "four" in read())

# %% exercise
# ●●● Make a second cluster, named safe, on which the same late record does not hang: play
# late_record(safe) on it. It needs a topic payments with one partition.
safe = SimulatedKafka(topics={"payments": 1}, transaction_version=1)
safe.start()
late_record(safe)

# %%
judged = globals().get("safe")
aborted = judged is not None and judged.transactions.describe("late")
goal("it can't hang", aborted and not judged.transactions.hanging())

# %% [markdown]
# ## 5. Hand it in
#
# Write your name, run the cell, and give the file to your teacher.

# %%
name = "answers"  # yours: such as "ada"

# %%
handed_in = {
    "lesson": "notebook",
    "predictions": list(predictions.values()),
    "goals": sum(goals.values()),
}
print(f"{sum(predictions.values())} of {len(predictions)} predictions are right,")
print(f"{sum(goals.values())} of {len(goals)} goals are reached.")
if name is None:
    print("Write your name first.")
else:
    path = Path(f"{name}-notebook.json")
    path.write_text(json.dumps(handed_in))
    print(f"Give {path} to your teacher.")
for cluster in filter(None, (judged, kafka)):
    cluster.stop()
