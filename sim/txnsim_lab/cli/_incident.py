"""``txnsim practise incident``: writes the disks of a cluster after an incident."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from txnsim.cli.output import TERMINAL
from txnsim.cli.parsing import MISUSE_STATUS
from txnsim.errors import ConfigError
from txnsim.files import place_when_whole
from txnsim.shell_text import command_line
from txnsim.text import unknown_word_message
from txnsim_lab.scenario.incidents import INCIDENTS, write_incident


def run(arguments: Sequence[str], *, as_json: bool) -> int:
    """Write the directories of an incident, or list all incidents; returns the exit status.

    Args:
        arguments: The incident's name and a new folder; none lists the incidents.
        as_json: Whether to print JSON.
    """
    match arguments:
        case []:
            _list_incidents(as_json=as_json)
            return 0
        case [name, folder_text] if name in INCIDENTS:
            return _write_incident(name, Path(folder_text), as_json=as_json)
        case [name, _] | [name]:
            if name in INCIDENTS:
                message = f"where to? {command_line('txnsim', 'practise', 'incident', name, 'DIR')}"
            else:
                message = unknown_word_message("incident", name, [*INCIDENTS])
        case _:
            message = "too many words: a name and a new folder are expected"
    TERMINAL.complain(message)
    return MISUSE_STATUS


def _list_incidents(*, as_json: bool) -> None:
    if as_json:
        TERMINAL.json({name: incident.summary for name, incident in INCIDENTS.items()})
        return
    width = max(map(len, INCIDENTS))
    for name, incident in INCIDENTS.items():
        TERMINAL.line(f"{name:{width}}  {incident.summary}")


def _write_incident(name: str, folder: Path, *, as_json: bool) -> int:
    incident = INCIDENTS[name]
    if folder.exists():
        TERMINAL.complain(f"{folder} is there already")
        return MISUSE_STATUS
    try:
        with place_when_whole(folder) as unfinished_folder:
            paths = write_incident(name).write(unfinished_folder)
    except (ConfigError, OSError) as error:
        TERMINAL.complain(error)
        return MISUSE_STATUS
    directories = [str(folder / path.name) for path in paths]
    command = command_line("txnsim", "logs", "decisions", *directories)
    if as_json:
        TERMINAL.json({"summary": incident.summary, "directories": directories, "command": command})
    else:
        TERMINAL.line("The disks of a cluster after an incident. What has happened? Ask them:")
        TERMINAL.line(f"  {command}")
    return 0
