"""Files that people write: scenarios, configurations, histories, fault rules."""

from __future__ import annotations

import contextlib
import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from tests.fuzz.target import Target
from tests.support.apache_kafka import REPOSITORY
from txnsim.config._files import load
from txnsim.config.properties import parse_properties
from txnsim.errors import BadInputError, ConfigError
from txnsim.faults.plan import FaultRule
from txnsim.security.jaas import parse_login
from txnsim.security.principal_mapping import PrincipalMapping
from txnsim_lab.check.history import History, HistoryError
from txnsim_lab.check.judge import judge
from txnsim_lab.scenario.scenario_reader import read

_HISTORIES: Final = REPOSITORY / "tests" / "lab" / "checkers" / "histories"
_LENGTH_MAX: Final = 2_048

_SCENARIO: Final = b"""name: one
title: One record
goal: See it.
method: Write it.
topics: {t: 1}
runs: {TV2: {mode: TV2, verdict: healthy}}
"""
_STEPS: Final = (
    b"steps: [{call: {who: b, do: append, partition: t-0, values: [a]}}]\n",
    b"steps: [{call: {who: p, do: send, partition: t-0, value: a, count: 3}}]\n",
    b"steps: [{fault: {id: f, point: client.request, api: EndTxn, action: {do: hold}}}]\n",
    b"steps: [{until: {struck: f, times: 2}}, {release: f}, {disarm: f}]\n",
    b"steps: [{cluster: {do: kill, broker: 1}}, {advance_ms: 1000}]\n",
    b"steps: [{look: {partition: t-0, isolation: read_committed}}]\n",
    b"players: &a {p: {id: x}}\nsteps: [*a, *a]\n",
)
_CONFIGS: Final = (
    b"brokers: 3\nport: 9092\ntopics: {orders: 3}\nsettings: {transaction_version: 2}\n",
    b"brokers: 1\nsecurity: {listeners: {SASL_PLAINTEXT: {port: 9093, protocol: SASL_PLAINTEXT, "
    b"mechanisms: [PLAIN]}}, plain_users: {alice: secret}, super_users: ['User:alice']}\n",
    b"settings: {fault: 1}\nas_version: ['3.9']\n",
)
_PROPERTIES: Final = (
    b"listeners=PLAINTEXT://:9092\nlog.dirs=/tmp\nnum.partitions=3\n",
    b"listeners=A://h:1,B://h:2\nlistener.security.protocol.map=A:PLAINTEXT,B:SASL_PLAINTEXT\n"
    b"listener.name.b.plain.sasl.jaas.config=org.apache.kafka.common.security.plain."
    b'PlainLoginModule required user_alice="secret";\nsasl.enabled.mechanisms=PLAIN\n',
    b"transaction.max.timeout.ms=900000\nmessage.max.bytes=1\\\n  000\\u0041\n",
    b"ssl.keystore.type=PEM\nssl.keystore.key=x\nssl.principal.mapping.rules=RULE:^CN=(.*?)$/$1/L\n",
)
_LOGINS: Final = (
    b'org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="b";',
    b"org.apache.kafka.common.security.scram.ScramLoginModule required // c\n username='a';",
)
_RULES: Final = ("RULE:^CN=(.*?),.*$/$1/L,DEFAULT", "DEFAULT", "RULE:^(a)$/$1-$2/U")
_FAULTS: Final = (
    b'{"id":"f","point":"client.request","api":"EndTxn","action":{"do":"hold"}}',
    b'{"id":"f","point":"peer.response","api":"WriteTxnMarkers","nth":2,"limit":3,'
    b'"action":{"do":"delay","ms":100}}',
    b'{"id":"f","point":"client.response","occurrences":[1,3],"probability":0.5,'
    b'"action":{"do":"error","error":"NOT_COORDINATOR"}}',
    b'{"id":"f","point":"client.request","action":{"do":"damage","how":"crc"}}',
    b'{"id":"f","point":"client.request","transactional_id":"a","after":"g","until":"h",'
    b'"action":{"do":"drop"}}',
)


def _scenario_seeds() -> Iterator[bytes]:
    yield from (_SCENARIO + steps for steps in _STEPS)
    for path in sorted((REPOSITORY / "scenarios").glob("*.yaml")):
        text = path.read_bytes()
        if len(text) <= _LENGTH_MAX:
            yield text


def _play_scenario(fuzz_bytes: bytes) -> None:
    with contextlib.suppress(ConfigError):
        read("scenario.yaml", fuzz_bytes.decode(errors="replace"))


def _config_seeds() -> Iterator[bytes]:
    yield from (b"\0" + config_text for config_text in _CONFIGS)
    yield from (b"\1" + property_text for property_text in _PROPERTIES)
    yield from (b"\2" + login_text for login_text in _LOGINS)
    yield from (b"\3" + rule_text.encode() for rule_text in _RULES)


_FOLDER: Final = Path(tempfile.mkdtemp(prefix="txnsim-fuzz-"))


def _play_config(fuzz_bytes: bytes) -> None:
    kind, content = fuzz_bytes[:1], fuzz_bytes[1:]
    jaas_text = content.decode(errors="replace")
    with contextlib.suppress(BadInputError):
        match kind[0] % 4 if kind else 0:
            case 0:
                path = _FOLDER / "config.yaml"
                path.write_bytes(content)
                load(path)
            case 1:
                path = _FOLDER / "server.properties"
                path.write_bytes(content)
                parse_properties(content, file="server.properties")
                load(path)
            case 2:
                with contextlib.suppress(ValueError):
                    parse_login(jaas_text)
            case _:
                with contextlib.suppress(ValueError):
                    PrincipalMapping(jaas_text)


def _history_seeds() -> Iterator[bytes]:
    for path in sorted(_HISTORIES.glob("*.jsonl")):
        text = path.read_bytes()
        lines = [line for line in text.splitlines(keepends=True) if not line.startswith(b"#")]
        for count in (len(lines), len(lines) // 2):
            excerpt = b"".join(itertools.islice(lines, count))
            if len(excerpt) <= _LENGTH_MAX:
                yield excerpt


def _play_history(fuzz_bytes: bytes) -> None:
    with contextlib.suppress(HistoryError):
        history = History.from_lines(fuzz_bytes)
        # What was read is read again, whether it can be judged or not.
        reread_history = History.from_lines(history.to_lines())
        assert reread_history.to_lines() == history.to_lines()
        str(judge(history))


def _fault_seeds() -> Iterator[bytes]:
    yield from _FAULTS
    yield b"[" + b",".join(_FAULTS) + b"]"


def _play_faults(fuzz_bytes: bytes) -> None:
    kind = list[FaultRule] if fuzz_bytes[:1] == b"[" else FaultRule
    with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
        rules = msgspec.json.decode(fuzz_bytes, type=kind)
        msgspec.json.decode(msgspec.json.encode(rules), type=kind)


TARGETS: Final = {
    "scenarios": Target(play=_play_scenario, seeds=_scenario_seeds, length_max=_LENGTH_MAX),
    "configs": Target(play=_play_config, seeds=_config_seeds, length_max=1_024),
    "histories": Target(play=_play_history, seeds=_history_seeds, length_max=_LENGTH_MAX),
    "fault-rules": Target(play=_play_faults, seeds=_fault_seeds, length_max=1_024),
}
