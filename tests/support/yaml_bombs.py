"""YAML that expands to far more than its text, and the errors it gets."""

from __future__ import annotations

from txnsim.config.yaml_bounds import BYTES_MAX, DEPTH_MAX, VALUES_MAX

NESTED = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{previous}'] * 10)}]\n"
    for previous, name in zip("abcdefg", "bcdefgh", strict=True)
)
"""A few hundred bytes that stand for 100 million values."""
CHAIN = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 2_000))
TOO_MANY = f"more than {VALUES_MAX} values, counting aliases as what they stand for, are not read"
TOO_DEEP = f"more than {DEPTH_MAX} levels are not read"
TOO_LONG = f"more than {BYTES_MAX} characters, counting aliases likewise, are not read"
BOMBS = {
    "nested": (NESTED, f"f:5: {TOO_MANY}"),
    "merged": ("a: &a {x: 1}\nb: {<<: [" + "*a," * 8_000 + "]}", f"f:2: {TOO_MANY}"),
    "itself": ("a: 1\nb: &b [*b]\n", "f:2: it contains itself"),
    "itself-by-key": ("a: &a {b: {c: *a}}\n", "f:1: it contains itself"),
    "brackets": ("a:\n " + "[" * 900 + "]" * 900, f"f:2: {TOO_DEEP}"),
    "braces": ("a: " + "{a: " * 900 + "}" * 900, f"f:1: {TOO_DEEP}"),
    "dashes": ("a:\n" + "- " * 900, f"f:2: {TOO_DEEP}"),
    "chain": (CHAIN, f"f:49: {TOO_DEEP}"),
    "strings": (f"a: &a {'x' * 200_000}\nb: [*a, *a]\n", f"f:2: {TOO_LONG}"),
    "size": ("#" * BYTES_MAX + "\n", f"f:1: {BYTES_MAX + 1} bytes, at most {BYTES_MAX} are read"),
    "digits": ("a: " + "9" * 5_000, "f:1: a number of 5000 characters, at most 400 are read"),
    "sexagesimal": ("a: " + "1:" * 300 + "1", "f:1: a number of 601 characters, at most 400 are"),
}
