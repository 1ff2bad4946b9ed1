"""Lessons: ``lessons`` reads them, ``trace_facts`` answers their questions from a trace and
``outside_facts`` from what clients saw, ``lesson_solver`` plays one to its end.
"""
