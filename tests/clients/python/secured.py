"""Logging in, and the transactional core behind it (docs/security.md)."""

from __future__ import annotations

from tests.clients.drivers.base import Driver, Record
from tests.clients.drivers.logins import Login, by_certificate, by_password
from tests.clients.python.lab import Lab, SecuredListeners, create_topic, expect, until_read, values

SCRAM = "SCRAM-SHA-256"
ADMIN = "admin"


def sasl(lab: Lab) -> None:
    """Every mechanism that the library knows; and a wrong password."""
    library = type(lab.driver)
    for mechanism in lab.driver.mechanisms:
        login = by_password(lab.secured.directory, mechanism)
        transact(library, lab.secured, login, lab.name)
    refuse_password(library, lab.secured)


def tls(lab: Lab) -> None:
    """Run a transaction as a client with a certificate of its own."""
    login = by_certificate(lab.secured.directory)
    transact(type(lab.driver), lab.secured, login, lab.name)


def transact(library: type[Driver], secured: SecuredListeners, login: Login, name: str) -> None:
    """Commit, abort and read as this user; an administrator makes the topic."""
    topic = f"{name}-{login.mechanism or login.user}".lower()
    admin = by_password(secured.directory, SCRAM, ADMIN)
    create_topic(library(secured.sasl, admin), topic, 2)
    driver = library(secured.tls if login.mechanism is None else secured.sasl, login)
    with driver.producer(topic) as producer:
        producer.init()
        producer.begin()
        producer.send(topic, [Record(b"never", 0), Record(b"never", 1)])
        producer.abort()
        producer.begin()
        producer.send(topic, [Record(b"then", 0), Record(b"then", 1)])
        producer.commit()
    until_read(driver, topic, [b"then"] * 2)
    all_values = sorted(values(driver.read(topic, committed=False)))
    expect(f"{login.mechanism}: uncommitted", [b"never"] * 2 + [b"then"] * 2, all_values)


def refuse_password(library: type[Driver], secured: SecuredListeners) -> None:
    """The library reports a wrong password by its own error for it."""
    wrong_login = by_password(secured.directory, SCRAM)._replace(password="wrong")
    driver = library(secured.sasl, wrong_login)
    error = driver.login_error()
    notes = getattr(error, "__notes__", "")
    assert driver.is_login_refused(error), (
        f"not how it says that a password is wrong: {error!r} {notes}"
    )
