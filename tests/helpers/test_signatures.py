"""The README of the Java helper has every public signature."""

from __future__ import annotations

from tests.helpers import signatures


def test_the_readme_has_the_signatures_as_they_are() -> None:
    readme = signatures.README.read_text("utf-8")
    assert readme == signatures.expected(readme), "python -m tests.helpers.signatures --write"


def test_a_signature_is_found_wherever_it_stands() -> None:
    block = signatures.expected("## Signatures\n\n```java\n```\n")
    for one in (
        'String bootstrapServersProperty() default "";',
        "JsonNode waitForTransaction(String transactionalId, Duration atMost, String... states)",
        "Rule limit(int times)",
        "Options topic(String name, int partitions)",
        "TxnsimCluster start(Options options)",
        "void assertExactlyOnce(Collection<String> owed, String outputTopic)",
    ):
        assert one.rstrip(";") in block, one
