"""Bytes and messages, without sockets.

- ``codec``: length-prefixed frames, headers, bodies; the one way to the schemas. ``registry`` finds
  the class of an API and version, ``messages`` has those that kio lacks, ``_declared_messages``
  makes them.
- ``decoder``, ``encoder``: compiled per class on first use, from what ``_schema`` reads of it, by
  ``_codegen``; ``values`` and ``varint`` are single fields.
- ``apis``: names of the APIs and where their flexible encoding begins.
- ``plain_values``: messages from plain values, by field name.
- ``filters``: those of requests that list something, from the command line to the core.
- ``error_codes``, ``rewriting``: the errors of an answer, and fields that a fault changes in it.
- ``batch``: record batches as raw bytes: ``batch_header``, ``batch_rewrite``, ``control``
  (markers), ``compression``; ``record_walk`` and ``records`` inside of them; ``old_messages``
  came before.
"""
