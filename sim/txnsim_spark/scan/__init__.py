"""From files to columns: which segments there are, pieces of them, the compiled walk.

- ``segments``, ``log_dirs``: what lies under the given paths, by names and small files.
- ``sections``, ``pieces``: large segments for several cores, files in buffers of bounded size.
- ``walk``: one segment; ``segment_examination`` looks at every batch of it; ``log_end``: an end or
  damage.
- ``kernel``, ``kernel_fragments``, ``kernel_records``, ``kernel_crc``: what is compiled; ``crcs``
  joins the last with a library.
- ``_seek``, ``log_seek``: batches and offsets that are looked for.
"""
