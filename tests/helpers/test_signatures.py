"""The README of the Java helper has every public signature."""

from __future__ import annotations

from xml.etree import ElementTree

from tests.helpers import signatures
from tests.helpers.run import HELPERS


def test_the_readme_has_the_signatures_as_they_are() -> None:
    readme = signatures.README.read_text("utf-8")
    assert readme == signatures.expected_readme(readme), (
        "python -m tests.helpers.signatures --write"
    )


def test_a_signature_is_found_wherever_it_stands() -> None:
    block = signatures.expected_readme("## Signatures\n\n```java\n```\n")
    for signature in (
        'String bootstrapServersProperty() default "";',
        "JsonNode waitForTransaction(String transactionalId, Duration atMost, String... states)",
        "Rule limit(int times)",
        "Options topic(String name, int partitions)",
        "TxnsimCluster start(Options options)",
        "void assertExactlyOnce(Collection<String> owed, String outputTopic)",
    ):
        assert signature.rstrip(";") in block, signature


def test_the_java_helper_brings_no_junit_of_its_own() -> None:
    # Another version than the project's engine breaks it: tried with 5.11.4, 5.12.2 and 5.14.1.
    pom = ElementTree.parse(HELPERS / "java" / "pom.xml")
    maven = "{http://maven.apache.org/POM/4.0.0}"
    scopes = {
        dependency.findtext(f"{maven}artifactId"): dependency.findtext(f"{maven}scope", "compile")
        for dependency in pom.iter(f"{maven}dependency")
    }
    assert scopes.pop("junit-jupiter-api") == "provided"
    assert [scope_name for scope_name, scope in scopes.items() if scope != "test"] == [
        "jackson-databind"
    ]
