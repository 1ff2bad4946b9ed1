"""Sizes as people write them."""

from __future__ import annotations

import pytest

from txnsim.sizes import read_size, spoken_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4096", 4_096),
        ("2kB", 2_000),
        ("1GB", 1_000_000_000),
        ("3KiB", 3_072),
        ("128MiB", 134_217_728),
        ("1GiB", 1_073_741_824),
        ("0", 0),
    ],
)
def test_sizes_are_numbers_with_a_unit(text: str, size: int) -> None:
    assert read_size(text) == size


@pytest.mark.parametrize("text", ["", "MiB", "1 MiB", "1mib", "1.5GiB", "-1", "²", "1" * 16])
def test_other_forms_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no size such as 128MiB, 1GB or 1073741824"):
        read_size(text)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (134_217_728, "128 MiB"),
        (1_000_000_000, "1 GB"),
        (1_073_741_824, "1 GiB"),
        (1_001, "1001 bytes"),
        (0, "0 bytes"),
    ],
)
def test_a_size_is_said_in_its_largest_whole_unit(size: int, text: str) -> None:
    assert spoken_size(size) == text
