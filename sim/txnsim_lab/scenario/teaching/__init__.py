"""Lessons: ``lessons`` reads them, ``trace_facts`` gets the answers to their questions from a
trace, ``outside_facts`` from what clients saw, and ``lesson_solver`` plays a lesson to its end.
"""
