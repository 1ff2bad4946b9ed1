"""``txnsim trace``, ``diff`` and ``explain``: traces as text, in other formats, and explained."""
