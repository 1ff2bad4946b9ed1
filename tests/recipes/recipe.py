"""The recipes: small applications of a framework, their tests, and what must come of them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NamedTuple

from tests.recipes.judge import RecipeError
from tests.recipes.lab import Lab, outside
from tests.recipes.making import (
    LAUNCHER,
    RECIPES,
    java_command,
    node_project,
    python_project,
    run_maven_tests,
)
from tests.support.apache_kafka import REPOSITORY, tool

NODE: Final = "this recipe needs Node.js 20"
# Nothing of the repository's own settings for pytest.
_PYTEST: Final = ("-m", "pytest", "-q", "-c", os.devnull, "--rootdir", ".", "test_receipts.py")


class Recipe(NamedTuple):
    """The recipe of one framework."""

    name: str
    play: Callable[[Lab], str]
    """Builds, runs and judges; answers with what it saw, in a few words.

    Raises RecipeError where something is not as it should be.
    """
    has_brokers: bool = False
    """It starts brokers itself, by the helper for its language; they are judged by its tests."""


def _kafkajs(lab: Lab) -> str:
    """KafkaJS: consume, transform, produce; a service that fails between receipt and position. The
    tests on a cluster that was there before, then on one that they start themselves.
    """
    node_name = tool("node", NODE, RecipeError)
    project_folder = node_project(RECIPES / "kafkajs")
    lab.run([node_name, "--test"], directory=project_folder)
    receipts = _receipts(lab, 20, end_count=3)
    lab.run([node_name, "--test"], directory=project_folder, environment=outside())
    return receipts


def _confluentjs(lab: Lab) -> str:
    """Confluent's JavaScript client: a service that fails in the middle, and a marker that is lost.
    The brokers of its tests are those that the helper starts.
    """
    node_name = tool("node", NODE, RecipeError)
    helper_file = REPOSITORY / "helpers" / "node"
    project_folder = node_project(
        RECIPES / "confluentjs", helper_file=helper_file, runs_build_scripts=True
    )
    tests = [node_name, "--test", "receipts.test.mjs"]  # the helper beside it has tests of its own
    output = lab.run(tests, directory=project_folder, environment=outside())
    if "pass 2" not in re.findall(r"pass \d+", output):
        raise RecipeError(f"fewer than 2 tests ran:\n{output}")
    return "2 tests passed"


def _maven(folder_path: str, lab: Lab) -> str:
    """``mvn test`` in a copy: its brokers are those that the helper starts. Spring Kafka: a
    listener that fails in the middle, and a marker that is lost. Kafka Streams: a thread that dies
    in the middle, and a commit whose answer is lost.
    """
    return f"{run_maven_tests(lab, RECIPES / folder_path, least=2)} tests passed"


def _connect(lab: Lab) -> str:
    """Kafka Connect: a source connector with exactly-once support, whose worker is killed."""
    shards, count = 4, 400
    _under_junit(lab, "connect", log_level="warn")
    counted_topic = lab.judge.only_topic("counted-")
    lab.judge.assert_exactly_once(
        counted_topic, (f"{shard}-{number}" for shard in range(shards) for number in range(count))
    )
    aborted = len(lab.judge.everything(counted_topic)) - len(
        lab.judge.committed_records(counted_topic)
    )
    ids = lab.judge.transactional_ids()
    return (
        f"{shards * count} records, 1 worker killed, {aborted} aborted; "
        f""
        f"{len(ids)} transactional ids"
    )


def _flink(lab: Lab) -> str:
    """Flink: its exactly-once sink; a job that fails, and one that goes on from its checkpoint.
    Flink's cluster is in the process of the test.
    """
    _under_junit(lab, "flink", log_level="error")
    return _receipts(lab, 1_500)


def _quix(lab: Lab) -> str:
    """Quix Streams: exactly-once processing, by a service that fails and is started again. The test
    on a cluster that was there before, then on one that it starts itself.
    """
    project_folder = python_project(RECIPES / "quix")
    python_program = str(project_folder / "venv" / "bin" / "python")
    lab.run([python_program, *_PYTEST], directory=project_folder)
    receipts = _receipts(lab, 20, must_abort=False)
    lab.run([python_program, *_PYTEST], directory=project_folder, environment=outside())
    return receipts


def _faststream(lab: Lab) -> str:
    """FastStream: at least once, by a handler that fails and gets its order again. The test on a
    cluster that was there before, then on one that it starts itself.
    """
    _pytest(lab, "faststream", "test_receipts.py")
    receipts = lab.judge.only_topic("receipts-")
    lab.judge.assert_exactly_once(
        receipts, (f"receipt of order {order_number}" for order_number in range(20))
    )
    return "20 orders, 20 receipts, no transaction"


def _share(lab: Lab) -> str:
    """A share group of librdkafka's: a job that fails once, and one that fails always."""
    _pytest(lab, "share", "test_jobs.py")
    return "20 jobs, 19 done by one of two workers each, 1 rejected"


def _pytest(lab: Lab, folder_path: str, test: str) -> None:
    """Run a test of a project in Python on the lab's cluster, then on one that it starts."""
    project_folder = python_project(RECIPES / folder_path)
    command = [str(project_folder / "venv" / "bin" / "python"), *_PYTEST[:-1], test]
    lab.run(command, directory=project_folder)
    lab.run(command, directory=project_folder, environment=outside())


def _under_junit(lab: Lab, folder_path: str, *, log_level: str) -> None:
    java, *options = java_command(
        RECIPES / folder_path, further_jars=[RECIPES / "java" / "Txnsim.java"]
    )
    log_option = f"-Dorg.slf4j.simpleLogger.defaultLogLevel={log_level}"
    lab.run([java, log_option, *options, *LAUNCHER], directory=RECIPES / folder_path, timeout_s=240)


def _receipts(lab: Lab, order_count: int, *, end_count: int = 0, must_abort: bool = True) -> str:
    """Check that each order has exactly one receipt; return a sentence with the numbers."""
    receipts = lab.judge.only_topic("receipts-")
    expected = (f"receipt of order {order_number}" for order_number in range(order_count))
    lab.judge.assert_exactly_once(receipts, expected, end_count=end_count)
    if must_abort:
        lab.judge.assert_aborted(receipts)
    aborted = len(lab.judge.everything(receipts)) - len(lab.judge.committed_records(receipts))
    ids = lab.judge.transactional_ids()
    return (
        f"{order_count} orders, {order_count} receipts, {aborted} aborted; "
        f"{len(ids)} transactional ids"
    )


ALL: Final[Mapping[str, Recipe]] = {
    recipe.name: recipe
    for recipe in (
        Recipe("kafkajs", _kafkajs),
        Recipe("confluentjs", _confluentjs, has_brokers=True),
        Recipe("spring", partial(_maven, "spring"), has_brokers=True),
        Recipe("streams", partial(_maven, "streams"), has_brokers=True),
        Recipe("connect", _connect),
        Recipe("flink", _flink),
        Recipe("quix", _quix),
        Recipe("faststream", _faststream),
        Recipe("share", _share),
    )
}
