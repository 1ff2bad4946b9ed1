"""The OpenAPI document: whole, and of the routes that there are."""

from __future__ import annotations

import json
import re
from typing import Any

from starlette.routing import Route

from tests.support.clusters import VirtualCluster, run_cluster
from txnsim.extensions import missing
from txnsim.http.app import INDEX_PATHS, OPERATIONS, ControlApi
from txnsim.http.openapi import document


def references(value: Any) -> set[str]:
    if isinstance(value, dict):
        found = {value["$ref"]} if "$ref" in value else set()
        return found.union(*map(references, value.values()))
    if isinstance(value, list):
        return set().union(*map(references, value))
    return set()


def test_every_reference_is_in_the_document() -> None:
    described = document(OPERATIONS)
    assert references(described) <= {
        f"#/components/schemas/{name}" for name in described["components"]["schemas"]
    }
    json.dumps(described)


def test_the_document_describes_the_routes_that_there_are() -> None:
    async def main(cluster: VirtualCluster) -> set[tuple[str, str]]:
        app = ControlApi(cluster.sim).app()
        return {
            (method.lower(), route.path_format)
            for route in app.routes
            if isinstance(route, Route)
            for method in (route.methods or ())
            if method != "HEAD"
        }

    described = {
        (method, path)
        for path, methods in document(OPERATIONS)["paths"].items()
        for method in methods
    }
    index = {("get", path) for path in (*INDEX_PATHS, "/openapi.json")}
    page = {("get", "/"), ("get", "/ui/{path}")} if "txnsim_lab" not in missing() else set()
    assert run_cluster(main) == described | index | page


def test_an_operation_names_the_parameters_of_its_path() -> None:
    for path, methods in document(OPERATIONS)["paths"].items():
        wanted = set(re.findall(r"{(\w+)}", path))
        for operation in methods.values():
            named = {one["name"] for one in operation.get("parameters", ()) if one["in"] == "path"}
            assert named == wanted
            assert operation["summary"]
            assert operation["responses"]
