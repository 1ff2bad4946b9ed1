"""Replaces ``starlette.routing``: a worker has no router."""

from __future__ import annotations


class Route:
    """Only named in annotations, never made."""
