"""Which commands there are, how ``txnsim --help`` groups them, and two examples for each one's
``--help``. A test parses every example.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Final

COMMANDS: Final = {
    "serve": ("txnsim.cli.serve", "start a cluster of brokers in this process"),
    "proxy": ("txnsim_lab.cli.proxy", "a fault proxy in front of any Kafka cluster"),
    "practise": (
        "txnsim_lab.cli.practise",
        "a cluster with a hanging transaction to find and repair",
    ),
    "check": (
        "txnsim_lab.cli.check",
        "judge what clients saw: find anomalies in a recorded history",
    ),
    "diff": (
        "txnsim_lab.cli.traces.diff",
        "where do two runs part? the first divergence of two traces",
    ),
    "explain": (
        "txnsim_lab.cli.traces.explain",
        "why a last stable offset stands still, or what became of a transaction, from a trace",
    ),
    "simulate": (
        "txnsim_lab.cli.simulating.simulate",
        "runs drawn from seeds: find, shrink and name what is wrong",
    ),
    "campaign": (
        "txnsim_lab.cli.simulating.campaign",
        "very many seeds, on this machine or on Spark, as a table",
    ),
    "scenario": (
        "txnsim_lab.cli.scenario.command",
        "list, show and run stories about transactions",
    ),
    "exam": (
        "txnsim_lab.cli.exam",
        "an exam for client libraries: what they do when it goes wrong",
    ),
    "faults": (
        "txnsim.cli.control.faults",
        "arm faults in a running cluster, watch them, release what they hold",
    ),
    "clock": ("txnsim.cli.control.clock", "let time pass in a running cluster"),
    "brokers": ("txnsim.cli.control.brokers", "kill, stop, start and isolate running brokers"),
    "topics": ("txnsim.cli.control.topics", "topics of a running cluster, offsets of replicas"),
    "schema": ("txnsim_lab.cli.schema", "JSON Schemas for editors: stories, clusters, fault rules"),
    "completion": ("txnsim.cli.completion", "completion of this command line for a shell"),
    "lesson": (
        "txnsim_lab.cli.teaching.lesson",
        "lessons about transactions, played in the terminal",
    ),
    "logs": (
        "txnsim_spark.cli.logs.command",
        "Kafka's log directories: write those of a running cluster, read any",
    ),
    "site": (
        "txnsim_lab.cli.site",
        "make a web site that runs the simulator in the browser, without a server",
    ),
    "stream": ("txnsim_spark.cli.stream", "stream topics with Spark, and tell what it can't see"),
    "trace": (
        "txnsim_lab.cli.traces.trace",
        "event traces: as text, in other formats, as Parquet; analyses",
    ),
    "txns": (
        "txnsim.cli.txns.command",
        "look at the transactions of any Kafka cluster, and repair them",
    ),
}
"""Name -> module, and its line of help: known without importing the module."""

GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "start a cluster": ("serve", "practise"),
    "ask and move a running one, by its control port": ("faults", "clock", "brokers", "topics"),
    "any Kafka cluster, this one or a real one": ("txns", "proxy", "stream", "logs"),
    "stories, lessons, and judges": (
        *("scenario", "simulate", "campaign"),
        *("lesson", "check", "exam", "site"),
    ),
    "traces of a run": ("trace", "explain", "diff"),
    "your editor and shell": ("schema", "completion"),
}
"""How ``txnsim --help`` shows them."""

_TXNS: Final = "txnsim txns --bootstrap-server localhost:9092"

EXAMPLES: Final[Mapping[str, tuple[str, ...]]] = {
    "serve": (
        "txnsim serve --topic orders:3 --http",
        "txnsim serve --brokers 1 --port 0 --as-version 3.6 --ready-file ready.json",
        "txnsim serve --ui",
    ),
    "proxy": (
        "txnsim proxy --bootstrap-server localhost:9092",
        "txnsim proxy --bootstrap-server localhost:9092 --peer 1=localhost:9094",
    ),
    "practise": ("txnsim practise", "txnsim practise copies/broker-1 copies/broker-2"),
    "lesson": ("txnsim lesson", "txnsim lesson L1"),
    "check": ("txnsim check history.jsonl", "txnsim check --json - < history.jsonl"),
    "exam": (
        "txnsim exam run --driver 'python helpers/exam/aiokafka_driver.py'",
        "txnsim exam list --only readers",
    ),
    "exam run": (
        "txnsim exam run --driver 'python helpers/exam/aiokafka_driver.py' --report exam.html",
        "txnsim exam run --driver ./driver --only 'end unknown' --known known.txt --misses misses",
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
        "txnsim explain lso orders-0 trace.jsonl",
        "txnsim explain txn payments-7 trace.jsonl",
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
    "campaign": (
        "txnsim campaign run --seeds 0..100000 --out rows",
        "txnsim campaign run --seeds 0..1000 --out rows --as-version 4.3 --no-shrink",
    ),
    "campaign run": (
        "txnsim campaign run --seeds 0..100000 --out rows",
        "txnsim campaign run --seeds 0..100000 --out rows --engine spark --master spark://host:7077",
    ),
    "campaign report": (
        "txnsim campaign report rows --out campaign.html",
        "txnsim campaign report rows-4.2 rows-4.3 --out releases.html",
    ),
    "scenario": ("txnsim scenario list", "txnsim scenario run z01 --armed"),
    "scenario list": ("txnsim scenario list", "txnsim scenario list --json"),
    "scenario show": ("txnsim scenario show z01", "txnsim scenario show z01 --summary"),
    "scenario new": ("txnsim scenario new late-answer", "txnsim scenario new two-producers"),
    "scenario check": ("txnsim scenario check late-answer.yaml", "txnsim scenario check z01 z02"),
    "scenario run": (
        "txnsim scenario run z01 --mode V- --armed",
        "txnsim scenario run late-answer.yaml --seed 7 --trace traces",
        "txnsim scenario run z01 --real --player kafka-python",
    ),
    "scenario matrix": ("txnsim scenario matrix", "txnsim scenario matrix --mode V- --json"),
    "faults": (
        "txnsim faults arm late --point peer.request --api WriteTxnMarkers --do hold",
        "txnsim faults wait late && txnsim faults release late",
    ),
    "faults arm": (
        "txnsim faults arm late --point peer.request --api WriteTxnMarkers --do hold",
        "txnsim faults arm lost --point client.response --api EndTxn --limit 1 --do drop",
    ),
    "faults list": ("txnsim faults list", "txnsim faults list --json"),
    "faults wait": ("txnsim faults wait late", "txnsim faults wait late --struck 3 --timeout 90s"),
    "faults release": ("txnsim faults release late", "txnsim faults release late --http 9081"),
    "faults disarm": ("txnsim faults disarm late", "txnsim faults disarm --all"),
    "faults verify": ("txnsim faults verify", "txnsim faults verify --json"),
    "clock": ("txnsim clock advance 60s", "txnsim clock set --back 5s --broker 2"),
    "clock show": ("txnsim clock show", "txnsim clock show --json"),
    "clock advance": ("txnsim clock advance 31s", "txnsim clock advance 7d"),
    "clock set": ("txnsim clock set --ahead 1h", "txnsim clock set --back 5s --broker 2"),
    "brokers": ("txnsim brokers kill 2 --lose-unflushed", "txnsim brokers start 2"),
    "brokers list": ("txnsim brokers list", "txnsim brokers list --json"),
    "brokers kill": ("txnsim brokers kill 2", "txnsim brokers kill 2 --lose-unflushed"),
    "brokers stop": ("txnsim brokers stop 2", "txnsim brokers stop 2 --wait 5s"),
    "brokers start": ("txnsim brokers start 2", "txnsim brokers start 2 --as-version 3.9"),
    "brokers isolate": ("txnsim brokers isolate 2", "txnsim brokers isolate 2 --from-clients"),
    "brokers heal": ("txnsim brokers heal 2", "txnsim brokers heal 2 --json"),
    "topics": (
        "txnsim topics create orders:3 --config cleanup.policy=compact",
        "txnsim topics describe orders",
    ),
    "topics list": ("txnsim topics list", "txnsim topics list --internal"),
    "topics create": (
        "txnsim topics create orders:3",
        "txnsim topics create orders --config cleanup.policy=compact",
    ),
    "topics describe": ("txnsim topics describe orders", "txnsim topics describe orders --json"),
    "topics delete": ("txnsim topics delete orders", "txnsim topics delete orders --json"),
    "topics move-leader": (
        "txnsim topics move-leader orders-0 2",
        "txnsim topics move-leader __transaction_state-7 1",
    ),
    "site": ("txnsim site build public", "txnsim site build public --gzip"),
    "site build": ("txnsim site build public", "txnsim site build public --from parts"),
    "schema": (
        "txnsim schema scenario > scenario.schema.json",
        "txnsim schema fault > fault.schema.json",
    ),
    "completion": (
        "source <(txnsim completion bash)",
        "source <(txnsim completion zsh)",
        "txnsim completion fish > ~/.config/fish/completions/txnsim.fish",
    ),
    "logs": (
        "txnsim logs find-hanging copies/broker-1 copies/broker-2",
        "txnsim logs verify copies/broker-1",
    ),
    "logs write": ("txnsim logs write disks", "txnsim logs write --into data --topic orders"),
    "logs describe": (
        "txnsim logs describe copies/broker-1",
        "txnsim logs describe copies/broker-1 --json",
    ),
    "logs find-hanging": (
        "txnsim logs find-hanging copies/broker-1 copies/broker-2",
        "txnsim logs find-hanging --all --json copies/broker-1",
    ),
    "logs collect": (
        "txnsim logs collect /var/lib/kafka/data --to broker-1.zip",
        "txnsim logs collect /disk-1/kafka /disk-2/kafka --to broker-1.zip --json",
    ),
    "logs verify": (
        "txnsim logs verify copies/broker-1",
        "txnsim logs verify copies/broker-1 copies/broker-2 --json",
    ),
    "logs extract": (
        "txnsim logs extract --transactional-id payments-7 --to records copies/broker-1",
        "txnsim logs extract --transactional-id payments-7 --topic orders --to records copies/*",
    ),
    "logs waiting": (
        "txnsim logs waiting copies/broker-1 copies/broker-2",
        "txnsim logs waiting copies/* --json",
    ),
    "logs who": (
        "txnsim logs who 4001 copies/broker-1 copies/broker-2",
        "txnsim logs who 4001 copies/* --json",
    ),
    "logs lost": (
        "txnsim logs lost copies/broker-1",
        "txnsim logs lost copies/* --topic orders --to records",
    ),
    "logs growth": (
        "txnsim logs growth copies/broker-1",
        "txnsim logs growth copies/* --top 50 --json",
    ),
    "logs report": (
        "txnsim logs report copies/broker-1 copies/broker-2 --out report.html",
        "txnsim logs report copies/* --topic orders --as-of now --out report.html --json",
    ),
    "logs timeline": (
        "txnsim logs timeline payments-7 copies/broker-1",
        "txnsim logs timeline payments-7 copies/broker-1 --json",
    ),
    "logs export": (
        "txnsim logs export copies/broker-1 --to tables",
        "txnsim logs export copies/broker-1 copies/broker-2 --to tables --json",
    ),
    "stream": (
        "txnsim stream --bootstrap-server localhost:9092 --topic orders --sink out --checkpoint at",
        "txnsim stream --topic orders --sink out --checkpoint at --alerts-to topic:alerts --once",
    ),
    "trace": ("txnsim trace brief trace.jsonl", "txnsim trace analyse traces"),
    "trace brief": ("txnsim trace brief trace.jsonl", "txnsim trace brief trace.jsonl | less"),
    "trace convert": (
        "txnsim trace convert trace.jsonl --as shiviz --to trace.log",
        "txnsim trace convert trace.jsonl --as mermaid",
    ),
    "trace open": ("txnsim trace open trace.jsonl", "txnsim trace open trace.jsonl --redact"),
    "trace export": (
        "txnsim trace export traces --to tables",
        "txnsim trace export run-1.jsonl run-2.jsonl --to tables --json",
    ),
    "trace analyse": (
        "txnsim trace analyse traces",
        "txnsim trace analyse traces --ids 3 --plots figures",
    ),
    "txns": (f"{_TXNS} list", f"{_TXNS} find-hanging --all", f"{_TXNS} why orders-0"),
    "txns list": (
        f"{_TXNS} list",
        f"{_TXNS} list --duration-filter 60000 --transactional-id-pattern 'payments-.*'",
    ),
    "txns describe": (
        f"{_TXNS} describe --transactional-id payments-7",
        f"{_TXNS} describe --transactional-id payments-7 --json",
    ),
    "txns describe-producers": (
        f"{_TXNS} describe-producers --topic orders --partition 0",
        f"{_TXNS} describe-producers --topic orders --partition 0 --broker-id 2",
    ),
    "txns abort": (
        f"{_TXNS} abort --topic orders --partition 0 --start-offset 17",
        f"{_TXNS} abort --topic orders --partition 0 --producer-id 3 --producer-epoch 1"
        " --coordinator-epoch -1",
    ),
    "txns find-hanging": (
        f"{_TXNS} find-hanging --broker-id 1",
        f"{_TXNS} find-hanging --all --watch 60",
    ),
    "txns forceTerminateTransaction": (
        f"{_TXNS} forceTerminateTransaction --transactionalId payments-7",
        "txnsim txns --command-config admin.properties forceTerminateTransaction"
        " --transactionalId payments-7",
    ),
    "txns repair": (f"{_TXNS} repair", f"{_TXNS} repair --topic orders --partition 0 --yes"),
    "txns why": (f"{_TXNS} why orders-0", f"{_TXNS} why orders 0 --watch 5"),
}
"""Command -> typical calls to start with."""


def add_examples(parser: argparse.ArgumentParser, path: str) -> None:
    lines = "\n".join(f"  {line}" for line in EXAMPLES.get(path, ()))
    if lines:
        parser.epilog = "\n\n".join(filter(None, (parser.epilog, f"examples:\n{lines}")))
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, branch in action.choices.items():
                add_examples(branch, f"{path} {name}")
