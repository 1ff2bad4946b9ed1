"""Replaces Starlette: a worker without a server needs its requests and responses only as values."""
