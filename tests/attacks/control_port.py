"""Requests to the control port: YAML that expands, endless numbers, bodies and headers that are too
large, many requests at once.
"""

from __future__ import annotations

import contextlib
import json
import socket
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from tests.attacks.patterns import make_ids
from tests.attacks.sending import send_quietly
from tests.attacks.target import Attack, AttackTarget
from txnsim.wire.batch import Record, build_batch
from txnsim.wire.compression import GZIP

NESTED: Final = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{previous}'] * 10)}]\n"
    for previous, name in zip("abcdef", "bcdefg", strict=True)
)
TIMEOUT_S: Final = 120.0
DRIVEN: Final = 8
"""So many driven runs wait at once."""
STOPS: Final = 100
"""Stops that each driven run keeps, with a process for each."""


def aliases(target: AttackTarget) -> int:
    """Aliases nested seven times, in 330 bytes of YAML."""
    return _post_yaml(target, NESTED)


def itself(target: AttackTarget) -> int:
    """A list that contains itself, and 900 brackets."""
    return _post_yaml(target, "a: &a [*a]\n") + _post_yaml(target, "a: " + "[" * 900)


def wide(target: AttackTarget) -> int:
    """As many values as YAML may have, five times."""
    return sum(_post_yaml(target, "a: [" + "x," * 19_000 + "]") for _ in range(5))


def digits(target: AttackTarget) -> int:
    """Numbers of 5,000 digits in paths and headers."""
    number = "9" * 5_000
    paths = (f"/api/v1/brokers/{number}", f"/api/v1/runs/1?wait_ms={number}")
    return sum(_ask(target, path, expected=(400, 404)) for path in paths)


def log_directory(target: AttackTarget) -> int:
    """A broker's log directory, ten times."""
    return sum(_ask(target, "/api/v1/brokers/1/log-dir", expected=(200,)) for _ in range(10))


def topic_counts(target: AttackTarget) -> int:
    """Topics of 2,147,483,647 and 2^70 partitions, and with so many replicas."""
    sent_bytes = 0
    for count in (200_000, 2_147_483_647, 2**70):
        for field_name in ("partitions", "replication_factor"):
            topic = {"name": "huge", field_name: count}
            sent_bytes += _post(target, "/api/v1/topics", topic, expected=(400, 422))
    return sent_bytes


def absurd_times(target: AttackTarget) -> int:
    """Clocks set and advanced by more than there is."""
    sent_bytes = 0
    for amount in (1e300, -1e300, 2**70, 10**400, "9" * 5_000, "1e400ms"):
        for field_name in ("set_by_ms", "advance_ms"):
            sent_bytes += _post(target, "/api/v1/clock", {field_name: amount}, expected=(422,))
    return sent_bytes


def clock_far_ahead(target: AttackTarget) -> int:
    """A broker's clock set nine years ahead and back, ten times; more than ten are refused."""
    far_ms = 9 * 365 * 86_400_000
    return sum(
        _post(target, "/api/v1/clock", {"set_by_ms": by, "broker": 2}, expected=(200,))
        for by in (far_ms, -far_ms) * 10
    )


def cut_off_bodies(target: AttackTarget) -> int:
    """Requests whose bodies end after a byte of a hundred, 1,000 of them."""
    head = b"POST /api/v1/clock HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    frame_bytes = head + b"Content-Length: 100\r\n\r\n{"
    host, port = target.http.removeprefix("http://").rsplit(":", 1)
    for _ in range(1_000):
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(frame_bytes)
    return 1_000 * len(frame_bytes)


def heavy_story(target: AttackTarget) -> int:
    """Three stories of 10 kB that append a million records each; then one is deleted."""
    steps = "".join(
        f"  - call: {{who: bystander, do: append, partition: t-{index}, count: 10000, keys: 5}}\n"
        for index in range(100)
    )
    story = (
        "name: heavy\ntitle: Much.\ngoal: Much.\nmethod: Much.\ntopics: {t: 100}\n"
        f"runs: {{V-: {{mode: V-, verdict: healthy}}}}\nsteps:\n{steps}"
    )
    sent_bytes = sum(
        _post(target, "/api/v1/runs?wait_ms=0", {"yaml": story}, expected=(202,)) for _ in range(3)
    )
    time.sleep(10.0)
    for run in (1, 2):
        deletion_request = urllib.request.Request(
            f"{target.http}/api/v1/runs/{run}", method="DELETE"
        )
        with urllib.request.urlopen(deletion_request, timeout=TIMEOUT_S) as answer:
            assert answer.status == 204
    return sent_bytes


def driven_runs(target: AttackTarget) -> int:
    """Driven runs that never end: as many as there may be, each with as many stops as it keeps."""
    run_request = {"name": "z01", "runs": ["V-"], "paused": True}
    sent_bytes = sum(
        _post(target, "/api/v1/runs?wait_ms=60000", run_request, expected=(200, 202, 409))
        for _ in range(DRIVEN + 4)
    )
    step = {"step": {"advance": "1ms"}}
    for run in (1, 2):
        for _ in range(STOPS + 20):
            path = f"/api/v1/runs/{run}/inputs?wait_ms=60000"
            sent_bytes += _post(target, path, step, expected=(200,))
    processes = descendants(target.pid)
    assert DRIVEN < len(processes) <= DRIVEN + 2 * STOPS + 2, len(processes)
    return sent_bytes


def events_of_many(target: AttackTarget) -> int:
    """Six listeners from the trace's beginning on, each of 9,000 nodes that are not there."""
    sent_bytes = make_ids(target, [f"id-{number}" for number in range(2_000)]) or 0
    target.measure_gaps_anew()
    host, port = target.http.removeprefix("http://").rsplit(":", 1)
    query = "&".join(["node=x"] * 9_000)
    head = f"GET /api/v1/events?from=0&{query} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    with contextlib.ExitStack() as stack:
        for _ in range(6):
            listener = stack.enter_context(socket.create_connection((host, int(port)), TIMEOUT_S))
            listener.sendall(head)
            sent_bytes += len(head)
            assert b" 200 " in listener.recv(15)
        time.sleep(5.0)
    return sent_bytes


def committed_values(target: AttackTarget) -> int:
    """What was committed to a topic of 1,000,000 tiny records, and whether it is there once."""
    records = build_batch(
        [Record(key=None, value=b"v")] * 100_000, timestamp_ms=1_700_000_000_000, compression=GZIP
    )
    topic = {"name": "tiny", "partition_data": [{"index": 0, "records": records}]}
    with target.connect() as connection:
        for _ in range(10):
            answer = connection.ask(0, 9, acks=1, timeout=30_000, topic_data=[topic])
            assert not answer.responses[0].partition_responses[0].error_code
    target.reset_memory_peak()
    sent_bytes = _ask(target, "/api/v1/topics/tiny/committed", expected=(200,))
    topics = {"input": "tiny", "output": "tiny"}
    return sent_bytes + _post(target, "/api/v1/assertions/exactly-once", topics, expected=(422,))


def descendants(process_id: int) -> list[int]:
    """All processes that a process has begun, and theirs."""
    children: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            parent_pid = int(status.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent_pid, []).append(int(status.parent.name))
    processes, unvisited = [], [process_id]
    while unvisited:
        child_ids = children.get(unvisited.pop(), [])
        processes += child_ids
        unvisited += child_ids
    return processes


def small_chunks(target: AttackTarget) -> int:
    """A body of 100,000 chunks of a byte, which is no JSON."""
    host, port = target.http.removeprefix("http://").rsplit(":", 1)
    head_text = (
        "POST /api/v1/clock HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Transfer-Encoding: chunked\r\n\r\n"
    )
    request = head_text.encode() + b"1\r\n \r\n" * 100_000 + b"0\r\n\r\n"
    with socket.create_connection((host, int(port)), TIMEOUT_S) as connection:
        connection.sendall(request)
        assert connection.recv(15).startswith(b"HTTP/1.1 4")
    return len(request)


def large_bodies(target: AttackTarget) -> int:
    """Bodies of 20 MB, and of almost a megabyte that is nested or wide."""
    sent_bytes = 0
    for body in (
        b'{"yaml": "' + b"x" * 20_000_000 + b'"}',
        b"[" * 990_000,
        b'{"name": ' + b"[" * 490_000 + b"]" * 490_000 + b"}",
        b'{"name": "t", "configs": {'
        + b",".join(b'"k%d": "v"' % number for number in range(60_000))
        + b"}}",
        b'{"partitions": ' + b"9" * 990_000 + b"}",
    ):
        for path in ("/api/v1/topics", "/api/v1/faults", "/api/v1/runs"):
            sent_bytes += _ask(target, path, body=body, expected=(400, 413, 422, None))
    return sent_bytes


def refused_bodies(target: AttackTarget) -> int:
    """Bodies of just less than 1 MB with one wrong value, or with nothing else."""
    rule: dict[str, object] = {"id": "r", "point": "client.request", "action": {"do": "hold"}}
    wrong_rule = {**rule, "action": {"do": "hol"}}
    seen = {"seen": "wrote", "at_ms": 1, "who": "p", "topic": "a", "partition": 0}
    seen |= {"value": "v", "offset": 0}
    documents: tuple[tuple[str, object], ...] = (
        ("faults", {**rule, "occurrences": [1] * 470_000}),
        ("faults", {**rule, "occurrences": ["x"] * 240_000}),
        ("faults", {**rule, "occurrences": [1] * 400_000 + ["x"]}),
        ("faults", dict.fromkeys(map("k{}".format, range(90_000)), 1)),
        ("faults/plan", [{}] * 300_000),
        ("faults/plan", [rule] * 13_000),
        ("faults/plan", [rule] * 900 + [wrong_rule]),
        ("verdicts", [{}] * 300_000),
        ("verdicts", [1] * 480_000),
        ("verdicts", [seen] * 8_000 + [1]),
    )
    return sum(
        _post(target, f"/api/v1/{name}", document, expected=(422,)) for name, document in documents
    )


def large_headers(target: AttackTarget) -> int:
    """Headers of 1 MB, 10,000 headers, and a path of 1 MB."""
    host = target.http.removeprefix("http://")
    address, port = host.rsplit(":", 1)
    sent_bytes = 0
    for head in (
        b"GET /api/v1/cluster HTTP/1.1\r\nX: " + b"x" * 1_000_000 + b"\r\n\r\n",
        b"GET /api/v1/cluster HTTP/1.1\r\n" + b"X: y\r\n" * 10_000 + b"\r\n",
        b"GET /" + b"x" * 1_000_000 + b" HTTP/1.1\r\n\r\n",
    ):
        with socket.create_connection((address, int(port)), timeout=TIMEOUT_S) as connection:
            sent_bytes += send_quietly(connection, head)
            with contextlib.suppress(ConnectionError):
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(1 << 16):
                    pass
    return sent_bytes


def traces_at_once(target: AttackTarget) -> int:
    """20 clients that ask for the whole trace, each three times."""
    with ThreadPoolExecutor(20) as client_pool:
        answers = [
            client_pool.submit(_ask, target, "/api/v1/trace", expected=(200,)) for _ in range(60)
        ]
    return sum(answer_future.result() for answer_future in answers)


def stories_at_once(target: AttackTarget) -> int:
    """20 stories posted at once."""
    with ThreadPoolExecutor(20) as client_pool:
        run_request = {"name": "late-produce-after-abort"}
        answers = [
            client_pool.submit(
                _post, target, "/api/v1/runs", run_request, expected=(200, 201, 202, 409, 429, 503)
            )
            for _ in range(20)
        ]
    return sum(answer_future.result() for answer_future in answers)


def _post(
    target: AttackTarget, path: str, document: object, *, expected: tuple[int | None, ...]
) -> int:
    body = json.dumps(document, separators=(",", ":")).encode()
    return _ask(target, path, body=body, expected=expected)


def _post_yaml(target: AttackTarget, text: str) -> int:
    body = json.dumps({"yaml": text}).encode()
    return _ask(target, "/api/v1/runs", body=body, expected=(422,))


def _ask(
    target: AttackTarget, path: str, *, expected: tuple[int | None, ...], body: bytes | None = None
) -> int:
    """Send a request and read the answer. If None is expected, the connection may be closed
    instead.
    """
    request = urllib.request.Request(target.http + path, data=body)
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            answer.read()
            status = answer.status
    except urllib.error.HTTPError as refused:
        refused.read()
        status = refused.code
    except (ConnectionError, urllib.error.URLError):
        if None in expected:
            return len(path) + len(body or b"")
        raise
    if status not in expected:
        raise AssertionError(f"{path[:80]}: {status}")
    return len(path) + len(body or b"")


def verdicts(target: AttackTarget) -> int:
    """Histories of 1 MB for the judges: a place for each record, and readers of everything."""
    record_events = [
        {
            "seen": kind,
            "at_ms": event_number,
            "who": "p",
            "topic": "a",
            "partition": event_number,
            **extra_fields,
        }
        for event_number in range(3_000)
        for kind, extra_fields in (
            ("wrote", {"value": "v", "offset": 0}),
            ("read", {"asked": 0, "next_offset": 1, "records": [{"offset": 0, "value": "v"}]}),
        )
    ]
    readers = [
        {
            "seen": kind,
            "at_ms": reader_number,
            "who": "p",
            "topic": "a",
            "partition": 0,
            **extra_fields,
        }
        for reader_number in range(3_000)
        for kind, extra_fields in (
            ("wrote", {"value": f"v{reader_number}", "offset": reader_number}),
            ("read", {"asked": 0, "next_offset": 2**40}),
        )
    ]
    bodies = [json.dumps(history).encode() for history in (record_events, readers)]
    return sum(_ask(target, "/api/v1/verdicts", body=body, expected=(200, 422)) for body in bodies)


ATTACKS: Final = (
    Attack("verdicts", verdicts),
    Attack("yaml-aliases", aliases),
    Attack("yaml-itself", itself),
    Attack("yaml-wide", wide),
    Attack("numbers-of-5000-digits", digits),
    Attack("log-directory", log_directory),
    Attack("topic-counts", topic_counts),
    Attack("absurd-times", absurd_times),
    Attack("clock-far-ahead", clock_far_ahead),
    Attack("cut-off-bodies", cut_off_bodies),
    Attack("heavy-stories", heavy_story),
    Attack("driven-runs", driven_runs),
    Attack("committed-values", committed_values, serve=("--brokers", "1", "--topic", "tiny:1")),
    Attack("large-bodies", large_bodies),
    Attack("refused-bodies", refused_bodies),
    Attack("small-chunks", small_chunks),
    Attack("large-headers", large_headers),
    Attack("traces-at-once", traces_at_once),
    Attack("events-of-many", events_of_many, serve=("--trace", "full")),
    Attack("stories-at-once", stories_at_once),
)
