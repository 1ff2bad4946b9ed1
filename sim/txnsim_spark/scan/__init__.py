"""Reads files into columns: lists segments, divides them, walks over them.

- ``segments``, ``log_dirs``: replicas and segments under the given paths, from names and small
  files.
- ``sections``, ``pieces``: large segments for several cores, files in buffers of bounded size.
- ``walk``: one segment; ``segment_examination`` examines every batch of it; ``log_end``: an end or
  damage.
- ``kernel``, ``kernel_fragments``, ``kernel_records``, ``kernel_crc``: the compiled functions;
  ``crcs`` computes small CRCs with ``kernel_crc`` and large ones with a library.
- ``_seek``, ``log_seek``: search for batches and offsets.
"""
