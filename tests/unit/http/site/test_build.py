from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from typing import Final

from txnsim.http.site import build
from txnsim.http.site.pack import NOT_NEEDED

ABROAD: Final = {
    "txnsim.proxy": "a story on a real cluster, which no browser reaches",
    "txnsim.proxy.addresses": "the same",
    "txnsim.proxy.fault_proxy": "the same",
    "txnsim.proxy.options": "the same",
    "cryptography": "keys and certificates of listeners with TLS: there are no listeners",
    "kafka": "kafka-python as a player: it wants sockets and threads",
    "prometheus_client": "the page of metrics",
    "uvloop": "the loop of a real server",
}
"""What modules of the site import and the site lacks -> why no visitor misses it."""


def imported(source: bytes) -> Iterator[str]:
    """Modules that a module imports when it is run, at once or later."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            node.body = []
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (one.name for one in names)
            case ast.ImportFrom(module=str(module), level=0):
                yield module
            case ast.Call(func=ast.Name(id="OnDemand"), args=[ast.Constant(value=str(name))]):
                yield name


def test_a_module_that_the_site_needs_is_in_it() -> None:
    own = {name: content for name, content in build.own_files() if name.endswith(".py")}
    known = {name[:-3].replace("/", ".").removesuffix(".__init__") for name in own}
    libraries = {one.name.lower().replace("-", "_") for one in build.parts().wheel} | {"yaml"}
    libraries |= {name.split("/")[0].removesuffix(".py") for name in build.STAND_INS}
    left_out = {name.split("/")[0].removesuffix(".py") for name in NOT_NEEDED if "/" not in name}
    missing = set()
    for content in own.values():
        for module in imported(content):
            first = module.split(".")[0]
            if first == "txnsim":
                missing |= {module} - known
            elif first not in sys.stdlib_module_names or first in left_out:
                missing |= {first} - libraries
    assert missing == ABROAD.keys()
