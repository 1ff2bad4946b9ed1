"""Two workers share one partition; a job fails once, another one always."""

from collections import Counter
from collections.abc import Callable
from uuid import uuid4

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from jobs import job_worker, work

JOBS = [f"job {job_number}" for job_number in range(20)]
TURNS = 300


def test_each_job_is_done_by_one_of_two_workers(bootstrap: str) -> None:
    # Names of its own: tests share the cluster, and nothing else.
    run = uuid4()
    jobs = f"jobs-{run}"
    topics = [NewTopic(jobs, 1, replication_factor=3)]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for creation in admin.create_topics(topics).values():
        creation.result()
    producer = Producer({"bootstrap.servers": bootstrap})
    try_counts: Counter[str] = Counter()
    done_counts: Counter[str] = Counter()

    def handle(job: str) -> None:
        try_counts[job] += 1
        if job == "job 3":
            raise ValueError("it says nothing")
        if job == "job 7" and try_counts[job] == 1:
            raise ConnectionError("no network")
        done_counts[job] += 1

    workers = [job_worker(bootstrap, group=f"workers-{run}", jobs=jobs) for _ in range(2)]

    def until(is_enough: Callable[[], object], *, write: str | None = None) -> None:
        for _ in range(TURNS):
            if write is not None:
                producer.produce(jobs, write)
                producer.flush()
            for worker in workers:
                work(worker, handle)
            if is_enough():
                return
        raise AssertionError(f"not in time: {try_counts}")

    # A new share group begins at the end of the log: only a member that is there gets a job.
    until(lambda: done_counts["first"], write="first")
    for job in JOBS:
        producer.produce(jobs, job)
    producer.flush()
    until(lambda: done_counts.keys() >= set(JOBS) - {"job 3"} and try_counts["job 3"])
    for worker in workers:
        worker.close()

    assert {job: done_counts[job] for job in JOBS} == {job: int(job != "job 3") for job in JOBS}
    assert (try_counts["job 3"], try_counts["job 7"]) == (1, 2)
