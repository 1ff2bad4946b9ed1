"""Bytes and messages, without sockets.

- ``framing``: length-prefixed frames.
- ``codec``: headers, bodies, whole frames; the one door to the schemas.
- ``apis``: names of the APIs and where their flexible encoding begins.
- ``batch``: record batches as raw bytes.
"""
