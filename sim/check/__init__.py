"""Judging from outside: ``facts`` is what was seen there, ``verdicts`` what that means."""
