"""Bytes and messages, without sockets.

- ``codec``: frames with their length, headers, bodies; the only way to the schemas. ``registry``
  finds the class of an API and version, ``messages`` has those that kio lacks,
  ``_declared_messages`` makes them.
- ``decoder``, ``encoder``: compiled per class on first use, from what ``_schema`` reads of it, by
  ``_codegen``; ``values`` and ``varint`` are for single fields.
- ``apis``: names of the APIs and their first flexible versions.
- ``plain_values``: messages from plain values, by field name.
- ``filters``: filters of requests that list something, for command line, client and broker.
- ``error_codes``, ``rewriting``: the errors of a response, and fields that a fault changes in it.
- ``batch``: record batches as raw bytes: ``batch_header``, ``batch_rewrite``, ``control``
  (markers), ``compression``; ``record_walk`` and ``records`` inside them; ``old_messages`` of older
  formats.
"""
