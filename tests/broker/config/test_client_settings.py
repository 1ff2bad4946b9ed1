from __future__ import annotations

import pytest

from txnsim.client.connection import ClientSettings
from txnsim.config.client_settings import read_client_settings
from txnsim.config.lookup import WrongValueError
from txnsim.config.properties import Property
from txnsim.security.options import SecurityProtocol


def entries(**values: str) -> dict[str, Property]:
    named = {name.replace("_", "."): value for name, value in values.items()}
    return {
        name: Property(line=line, name=name, value=value)
        for line, (name, value) in enumerate(named.items(), start=1)
    }


def test_what_is_not_said_stays_as_it_was() -> None:
    defaults = ClientSettings(client_id="stream", api_timeout_ms=7)
    read = read_client_settings(entries(request_timeout_ms="5"), defaults=defaults)
    assert (read.settings.client_id, read.settings.api_timeout_ms) == ("stream", 7)
    assert (read.settings.request_timeout_ms, read.bootstrap, read.ignored) == (5, None, ())


def test_each_property_is_used_or_named() -> None:
    read = read_client_settings(
        entries(
            security_protocol="PLAINTEXT",
            bootstrap_servers="h:1",
            client_id="me",
            metrics_num_samples="3",
        )
    )
    assert read.settings.security.protocol is SecurityProtocol.PLAINTEXT
    assert (read.bootstrap, read.settings.client_id) == ("h:1", "me")
    assert read.ignored == ("metrics.num.samples",)


def test_a_wrong_value_comes_with_its_property() -> None:
    with pytest.raises(WrongValueError, match="milliseconds are expected") as error:
        read_client_settings(entries(request_timeout_ms="soon"))
    assert error.value.entry.name == "request.timeout.ms"
