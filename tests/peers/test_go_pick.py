"""Picking tests from Go files: the declarations that come along, and those that do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.peers.go_pick import pick_tests

_ONE = """\
package peer

import (
\t"fmt"
\t"testing"
\tother "example.test/named"
\t"example.test/plain"
)

// TestA is wanted.
func TestA(t *testing.T) {
\thelp(t)
\tplain := other.New() // fmt.Println
\tplain.Close()
}

func TestB(t *testing.T) {
\tfmt.Println(plain.Text)
}
"""

_TWO = """\
package peer

import (
\t"fmt"
\t"testing"
)

const least = 1

type box struct {
\tsize int
}

func (b *box) open() int { return b.size }

func help(t *testing.T) {
\tfmt.Println((&box{least}).open())
}

func idle() {}
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "one_test.go").write_text(_ONE)
    (tmp_path / "two_test.go").write_text(_TWO)
    (tmp_path / "inside.go").write_text("package peer\n\nfunc New() {}\n")
    return tmp_path


def test_helpers_come_along_and_imports_that_they_use(directory: Path) -> None:
    text = pick_tests(directory, ["TestA"], package="ours")
    head_text, _, body = text.partition(")\n")
    assert head_text == (
        'package ours\nimport (\n\t"fmt"\n\t"testing"\n\tother "example.test/named"\n'
    )
    assert [line for line in body.splitlines() if not line.startswith(("\t", "}"))] == [
        "func TestA(t *testing.T) {",
        "func help(t *testing.T) {",
        "const least = 1",
        "type box struct {",
        "func (b *box) open() int { return b.size }",
    ]


def test_a_test_that_is_gone_is_an_error(directory: Path) -> None:
    with pytest.raises(KeyError):
        pick_tests(directory, ["TestGone"], package="ours")
