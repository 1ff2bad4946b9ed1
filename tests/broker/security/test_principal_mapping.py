"""The cases of Kafka's SslPrincipalMapper: which rule makes which name."""

from __future__ import annotations

import pytest

from txnsim.security.principal_mapping import PrincipalMapping

RULES = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, "
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L, "
    "RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U, "
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U, "
    "DEFAULT"
)


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        ("CN=Duke,OU=ServiceUsers,O=Org,C=US", "duke"),
        ("CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        ("cn=duke,ou=sme,dc=mycp,dc=com", "DUKE@SME"),
        ("cN=duke,OU=JavaSoft,O=Sun Microsystems", "DUKE"),
        ("OU=JavaSoft,O=Sun Microsystems,C=US", "OU=JavaSoft,O=Sun Microsystems,C=US"),
    ],
)
def test_the_first_rule_that_fits_makes_the_name(subject: str, name: str) -> None:
    assert PrincipalMapping(RULES).name(subject) == name


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        ("DEFAULT", "CN=Duke,O=x"),
        ("", None),
        (" , ,", None),
        ("RULE:^CN=Ann.*$/ann/", None),
        ("RULE:^CN=(.*?),O=(.*?)$/$2:$1:$0/", "x:Duke:CN=Duke,O=x"),
        ("RULE:^CN=(.*?),O=(.*?)$/$1$4$12/", "Duke$4Duke2"),
        ("RULE:^CN=(?<who>.*?),.*$/${who}/", "Duke"),
        ("RULE:(C)(N)(=)(D)(u)(k)(e)(,)(O)(=)(x)/$11$10$12/", "x=C2"),
        (r"RULE:^CN=(.*?),.*$/\$1\/$1/U", r"$1/DUKE"),
        ("RULE:^CN=(Duke|(Ann)),.*$/$1-$2/", "Duke-"),
        ("RULE:^CN=(?<who>Ann)?.*$/a${who}/", "a"),
        ("RULE:.*/user/", "useruser"),  # String.replaceAll meets the empty end as well
        # A replacement that Java fails at: nobody is let in.
        ("RULE:^.*$/$1/", None),
        ("RULE:^.*$/$/", None),
        ("RULE:^.*$/${who}/", None),
    ],
)
def test_what_a_replacement_says(rules: str, name: str | None) -> None:
    assert PrincipalMapping(rules).name("CN=Duke,O=x") == name


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        ("NONSENSE", "is no rule"),
        ("DEFAULTS", "is no rule"),
        ("RULE:^CN=(.*?),OU=(.*)$/$1/X", "is no rule"),
        ("RULE:^CN=(.*?)$/$1", "is no rule"),
        ("RULE:(/x/", "is no regular expression"),
    ],
)
def test_what_is_no_rule_is_refused(rules: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        PrincipalMapping(rules)
