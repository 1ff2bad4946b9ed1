"""The commands of the lab (``txnsim.cli.commands``)."""

from __future__ import annotations

from typing import Final

from txnsim.cli.commands import CommandTable


def words() -> dict[str, tuple[str, ...]]:
    """Names of stories, lessons and errors, for completion."""
    from txnsim_lab.scenario.catalog import heads
    from txnsim_lab.scenario.teaching.lessons import lessons
    from txnsim_lab.troubleshooting import error_names, page_file, read_sections

    story_names = tuple(
        str(name)
        for scenario_head in heads()
        for name in (scenario_head["name"], *scenario_head.get("aliases", ()))
    )
    story_commands = ("scenario run", "scenario show", "scenario check", "scenario matrix")
    known_error_names = error_names(read_sections(page_file().read_text("utf-8")))
    words_by_command = {
        "lesson": tuple(lessons()),
        "explain": known_error_names,
        "explain error": known_error_names,
    }
    return words_by_command | dict.fromkeys(story_commands, story_names)


_EXAMPLES: Final = {
    "proxy": (
        "txnsim proxy --bootstrap-server localhost:9092",
        "txnsim proxy --bootstrap-server localhost:9092 --peer 1=localhost:9094",
    ),
    "conformance": (
        "txnsim conformance localhost:9092",
        "txnsim conformance localhost:9092 --release 3.9 --junit conformance.xml",
    ),
    "practise": (
        "txnsim practise",
        "txnsim practise copies/broker-1 copies/broker-2",
        "txnsim practise upgrade --from 3.9 --to 4.4",
        "txnsim practise incident lost-commit after",
    ),
    "lesson": ("txnsim lesson", "txnsim lesson L1"),
    "check": ("txnsim check history.jsonl", "txnsim check --json - < history.jsonl"),
    "check-hypothesis": (
        "txnsim check-hypothesis report.yaml",
        "txnsim check-hypothesis --json - < report.yaml",
    ),
    "badge": (
        "txnsim badge exam.json --svg badge.svg",
        "txnsim badge conformance.json --shields badge.json",
    ),
    "exam": (
        "txnsim exam run --driver 'python helpers/exam/aiokafka_driver.py'",
        "txnsim exam list --only readers",
    ),
    "exam run": (
        "txnsim exam run --driver 'python helpers/exam/aiokafka_driver.py' --report exam.html",
        "txnsim exam run --driver ./driver --only 'end unknown' --known known.txt --misses misses",
    ),
    "exam compare": (
        "txnsim exam compare ./driver-1.22.2 ./driver-1.22.3",
        "txnsim exam compare ./old ./new --hint 'read_committed, leader epoch' --minutes 2",
    ),
    "exam readers": (
        "txnsim exam readers serve --expected expected.json",
        "txnsim exam readers check expected.json answers.json",
    ),
    "exam readers serve": (
        "txnsim exam readers serve --expected expected.json",
        "txnsim exam readers serve --port 9092 --ready-file ready.json",
    ),
    "exam readers write": (
        "txnsim exam readers write directories",
        "txnsim exam readers write /tmp/exam-directories",
    ),
    "exam readers check": (
        "txnsim exam readers check expected.json answers.json",
        "txnsim exam readers check directories/expected.json answers.json",
    ),
    "exam list": ("txnsim exam list", "txnsim exam list --only readers --json"),
    "diff": ("txnsim diff good.jsonl bad.jsonl", "txnsim diff --json good.jsonl bad.jsonl"),
    "explain": (
        "txnsim explain PRODUCER_FENCED",
        'txnsim explain "Timeout expired after 60000ms while awaiting InitProducerId"',
        "txnsim explain lso orders-0 trace.jsonl",
        "txnsim explain txn payments-7 trace.jsonl",
    ),
    "explain error": (
        "txnsim explain error ProducerFencedException",
        "txnsim explain error - < client.log",
    ),
    "explain lso": (
        "txnsim explain lso orders-0 trace.jsonl",
        "txnsim explain lso orders-0 trace.jsonl --at 861",
    ),
    "explain txn": (
        "txnsim explain txn payments-7 trace.jsonl",
        "txnsim explain txn payments-7 trace.jsonl --json",
    ),
    "simulate": (
        "txnsim simulate --seeds 0..200",
        "txnsim simulate --seed 11 --as-version 4.2",
    ),
    "explore": (
        "txnsim explore",
        "txnsim explore z27 --time 2m",
        "txnsim explore broker-dies --as-version 4.2 --bounds losses=1",
    ),
    "referee": (
        "txnsim referee 4.3 4.4 --time 2m",
        "txnsim referee 4.4 4.4,loads_wait_for_replication=on --seeds 0..1000 --html verdict.html",
        "txnsim referee 4.4 fix.py --markdown comment.md",
    ),
    "campaign": (
        "txnsim campaign run --seeds 0..100000 --out rows",
        "txnsim campaign run --seeds 0..1000 --out rows --as-version 4.3 --no-shrink",
    ),
    "campaign run": (
        "txnsim campaign run --seeds 0..100000 --out rows",
        "txnsim campaign run --seeds 0..100000 --out rows --engine spark --master spark://host:7077",
    ),
    "scenario": ("txnsim scenario list", "txnsim scenario run z01 --armed"),
    "scenario list": ("txnsim scenario list", "txnsim scenario list --json"),
    "scenario show": ("txnsim scenario show z01", "txnsim scenario show z01 --summary"),
    "scenario new": ("txnsim scenario new late-answer", "txnsim scenario new two-producers"),
    "scenario check": (
        "txnsim scenario check late-answer.yaml",
        "txnsim scenario check z01 z02",
    ),
    "scenario run": (
        "txnsim scenario run z01 --mode V- --armed",
        "txnsim scenario run late-answer.yaml --seed 7 --trace traces",
        "txnsim scenario run z01 --real --player kafka-python",
    ),
    "scenario matrix": ("txnsim scenario matrix", "txnsim scenario matrix --mode V- --json"),
    "site": ("txnsim site build public", "txnsim site build public --gzip"),
    "site build": ("txnsim site build public", "txnsim site build public --from parts"),
    "schema": (
        "txnsim schema scenario > scenario.schema.json",
        "txnsim schema fault > fault.schema.json",
    ),
    "trace": ("txnsim trace brief trace.jsonl", "txnsim trace open trace.jsonl"),
    "trace brief": ("txnsim trace brief trace.jsonl", "txnsim trace brief trace.jsonl | less"),
    "trace convert": (
        "txnsim trace convert trace.jsonl --as shiviz --to trace.log",
        "txnsim trace convert trace.jsonl --as mermaid",
    ),
    "trace open": ("txnsim trace open trace.jsonl", "txnsim trace open trace.jsonl --redact"),
}

TABLE: Final = CommandTable(
    commands={
        "proxy": ("txnsim_lab.cli._proxy", "a fault proxy in front of any Kafka cluster"),
        "practise": (
            "txnsim_lab.cli._practise",
            "a cluster with a hanging transaction to find and repair",
        ),
        "check": (
            "txnsim_lab.cli._check",
            "judge what clients saw: find anomalies in a recorded history",
        ),
        "diff": (
            "txnsim_lab.cli._traces.diff",
            "where do two runs part? the first divergence of two traces",
        ),
        "explain": (
            "txnsim_lab.cli._traces.explain",
            "what an error means, by name or message; from a trace, why a last stable offset stands"
            " still and what became of a transaction",
        ),
        "simulate": (
            "txnsim_lab.cli._simulating.simulate",
            "runs drawn from seeds: find, shrink and name what is wrong",
        ),
        "explore": (
            "txnsim_lab.cli._exploring",
            "every order of a small cluster's messages, within bounds: none goes wrong, or how",
        ),
        "referee": (
            "txnsim_lab.cli._referee",
            "two designs of a change played against each other: what each cures, leaves, brings",
        ),
        "campaign": (
            "txnsim_lab.cli._simulating.campaign",
            "very many seeds, on this machine or on Spark, as a table",
        ),
        "scenario": (
            "txnsim_lab.cli._scenario.command",
            "list, show and run stories about transactions",
        ),
        "check-hypothesis": (
            "txnsim_lab.cli._check_hypothesis",
            "a story as a hypothesis: reproduced, not reproduced, or impossible",
        ),
        "exam": (
            "txnsim_lab.cli._exam",
            "an exam for client libraries: what they do when it goes wrong",
        ),
        "conformance": (
            "txnsim_lab.cli._conformance",
            "what a real Kafka answers, asked of any broker: passed, or where it differs",
        ),
        "badge": (
            "txnsim_lab.cli._badge",
            "a badge for a README, from the results of an exam or of conformance",
        ),
        "schema": (
            "txnsim_lab.cli._schema",
            "JSON Schemas for editors: stories, clusters, fault rules",
        ),
        "lesson": (
            "txnsim_lab.cli._teaching.lesson",
            "lessons about transactions, played in the terminal",
        ),
        "site": (
            "txnsim_lab.cli._site",
            "make a web site that runs the simulator in the browser, without a server",
        ),
        "trace": (
            "txnsim_lab.cli._traces.trace",
            "event traces: as text, in other formats, as Parquet; analyses",
        ),
    },
    groups={
        "start a cluster": ("practise",),
        "any Kafka cluster, this one or a real one": ("proxy", "conformance"),
        "stories, lessons, and judges": (
            "scenario",
            "simulate",
            "explore",
            "referee",
            "campaign",
            "lesson",
            "check",
            "check-hypothesis",
            "exam",
            "badge",
            "site",
        ),
        "traces of a run": ("trace", "explain", "diff"),
        "your editor and shell": ("schema",),
    },
    examples=_EXAMPLES,
    words=words,
)
