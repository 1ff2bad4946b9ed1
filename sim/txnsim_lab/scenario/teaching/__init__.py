"""Lessons: ``lessons`` reads them, ``facts`` answers their questions from a trace and ``seen`` from
what clients saw, ``played`` plays one to its end.
"""
