"""Names of the fault points."""

from __future__ import annotations

import ast
import inspect

from txnsim.faults import points
from txnsim.faults.points import FaultPoint


def test_points_have_dotted_names() -> None:
    assert {str(point) for point in FaultPoint} == {
        "client.request", "client.response", "clock.timer", "connection.open", "coordinator.load",
        "coordinator.unload", "group.completion", "log.append", "log.flush", "log.index",
        "log.read", "metadata.apply", "now", "peer.request", "peer.response", "process.start",
        "process.stop",
    }  # fmt: skip


def test_every_point_says_what_a_fault_does_there() -> None:
    body = next(
        node for node in ast.parse(inspect.getsource(points)).body if isinstance(node, ast.ClassDef)
    ).body
    undocumented = [
        ast.unparse(node)
        for node, after in zip(body, [*body[1:], None], strict=True)
        if isinstance(node, ast.Assign) and not isinstance(after, ast.Expr)
    ]
    assert undocumented == []
