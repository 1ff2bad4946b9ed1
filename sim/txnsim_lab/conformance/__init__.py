"""What a broker decides, row by row, and short sequences of requests that show each row, with the
answers of a real Apache Kafka: asked of any broker.

- ``run``: plays what applies and compares; ``results`` are values, and as JUnit has them.
- ``_book``: reads and plays the casebook. The folder of that name has the data: rules, cases,
  answers; ``tests/conformance/CASES.md`` tells their form.
"""
