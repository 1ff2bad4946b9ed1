"""``txnsim trace``, ``diff`` and ``explain``: events as text, in other formats, in words."""
