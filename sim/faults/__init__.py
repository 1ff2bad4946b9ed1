"""Faults on demand: where they can strike, what is declared, and who makes it happen.

- ``points``: every place, by name.
- ``plan``: rules as values; does a rule concern a crossing?
- ``injector``: the interceptor that counts, holds, delays, drops and answers with errors.

The code that is struck knows nothing of this package; it is handed an ``env.Interceptor``.
"""
