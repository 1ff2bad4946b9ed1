"""In place of ``starlette.routing``: a worker has no router."""

from __future__ import annotations


class Route:
    """Named where types are; never made."""
