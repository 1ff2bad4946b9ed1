"""Lessons: ``lessons`` reads them, ``facts`` answers their questions from a trace, ``played`` plays
one to its end.
"""
