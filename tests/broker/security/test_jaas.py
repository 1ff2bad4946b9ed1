"""``sasl.jaas.config`` as JaasConfig reads it."""

from __future__ import annotations

import pytest

from txnsim.security.jaas import parse_login


@pytest.mark.parametrize(
    ("text", "name", "options"),
    [
        ("a.B required;", "a.B", {}),
        ("B REQUISITE x=y ;", "B", {"x": "y"}),
        (
            'a.PlainLoginModule required username="al ice" user_bob=\'b"ob\';',
            "a.PlainLoginModule",
            {"username": "al ice", "user_bob": 'b"ob'},
        ),
        ('B optional // why\n k="v" /* and\nso on */ ; / the end', "B", {"k": "v"}),
        (r'B sufficient k="\"\\\t\n\q\101";', "B", {"k": '"\\\t\nqA'}),
        ('B required k="";', "B", {"k": ""}),
        (
            "B required unsecuredLoginStringClaim_sub=me-too;",
            "B",
            {"unsecuredLoginStringClaim_sub": "me-too"},
        ),
    ],
)
def test_a_module_and_its_options(text: str, name: str, options: dict[str, str]) -> None:
    found = parse_login(text)
    assert (found.name, found.options) == (name, options)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no login module"),
        (" // nothing", "no login module"),
        ("a.B", "a flag is expected"),
        ("a.B wanted;", "a flag is expected"),
        ("; required;", "a flag is expected"),
        ("a.B required k;", "the option k has no value"),
        ("a.B required k=1;", "the option k has no value"),
        ("a.B required k==x;", "the option k has no value"),
        ("a.B required k=", "the option k has no value"),
        ("a.B required k=x", "semicolon"),
        ("a.B required; c.D required;", "2 login modules"),
    ],
)
def test_what_is_none_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_login(text)
