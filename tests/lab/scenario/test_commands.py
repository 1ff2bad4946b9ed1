from __future__ import annotations

import subprocess
import sys

import pytest

from txnsim_lab.scenario.commands import (
    Back,
    Command,
    Drive,
    Failed,
    Go,
    Input,
    Order,
    encode,
    to_command,
    to_order,
    to_state,
)


@pytest.mark.parametrize("command", [Go(steps=2), Go(), Drive(step={"advance": "1s"}), Back()])
def test_a_command_arrives_as_it_was_sent(command: Command) -> None:
    assert to_command(encode(command)) == command


def test_orders_and_states_arrive_as_they_were_sent() -> None:
    one = Input(before=3, step={"release": "late"})
    order = Order(yaml="name: x", run="V-", take="armed", seed=1, inputs=(one,))
    assert to_order(encode(order)) == order
    assert to_state(encode(Failed(error="why"))) == Failed(error="why")


def test_who_only_asks_for_runs_imports_no_story() -> None:
    code = "import sys, txnsim_lab.scenario.commands; print('pydantic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
