"""The rules by which a broker decides, and for each rule short sequences of requests that show it,
with the answers of a real Apache Kafka. They can be played to any broker.

- ``run``: plays the cases that apply, and compares; ``results`` are the results, also as JUnit XML.
- ``_book``: reads and plays the casebook. Its data, which are rules, cases and answers, lie in a
  folder beside it; ``tests/conformance/CASES.md`` describes their form.
"""
