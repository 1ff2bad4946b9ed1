"""Logging in, and the transactional core behind it (docs/security.md)."""

from __future__ import annotations

from tests.clients.drivers.base import Driver, Record
from tests.clients.drivers.logins import Login, by_certificate, by_password
from tests.clients.python.lab import Lab, create_topic, expect, until_read, values

SCRAM = "SCRAM-SHA-256"
ADMIN = "admin"


def sasl(lab: Lab) -> None:
    """Every mechanism that the library knows; and a wrong password."""
    secured = lab.secured
    for mechanism in lab.driver.mechanisms:
        _transact(lab, secured.sasl, by_password(secured.directory, mechanism))
    wrong = by_password(secured.directory, SCRAM)._replace(password="wrong")
    driver = type(lab.driver)(secured.sasl, wrong)
    error = driver.login_error()
    assert driver.is_login_refused(error), (
        f"not how it says that a password is wrong: {error!r} {getattr(error, '__notes__', '')}"
    )


def tls(lab: Lab) -> None:
    """With a certificate of the client's own."""
    _transact(lab, lab.secured.tls, by_certificate(lab.secured.directory))


def _transact(lab: Lab, bootstrap: str, login: Login) -> None:
    topic = f"{lab.name}-{login.mechanism or login.user}".lower()
    admin = by_password(lab.secured.directory, SCRAM, ADMIN)
    create_topic(type(lab.driver)(lab.secured.sasl, admin), topic, 2)
    driver: Driver = type(lab.driver)(bootstrap, login)
    with driver.producer(topic) as producer:
        producer.init()
        producer.begin()
        producer.send(topic, [Record(b"never", 0), Record(b"never", 1)])
        producer.abort()
        producer.begin()
        producer.send(topic, [Record(b"then", 0), Record(b"then", 1)])
        producer.commit()
    until_read(driver, topic, [b"then"] * 2)
    everything = sorted(values(driver.read(topic, committed=False)))
    expect(f"{login.mechanism}: uncommitted", [b"never"] * 2 + [b"then"] * 2, everything)
