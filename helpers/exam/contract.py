"""The contract of an exam's driver in Python: reads commands, writes answers (docs/exam.md).

A driver is an object with a method for each command that its library knows. What a method returns
goes into the answer; what it raises becomes the answer's error, and NotImplementedError says that
the library can't do it. Standard library only.
"""

import json
import os
import platform
import sys

CONTRACT = 1
RUNTIME_VERSION = f"{platform.python_implementation()} {platform.python_version()}"


def serve(driver):
    """Answer commands until standard input ends.

    Args:
        driver: ``describe()``, ``error(raised)`` and the commands as methods.
    """
    answer_output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # a library that prints must not write between the answers
    for line in sys.stdin:
        command = json.loads(line)
        command_id, command_name = command.pop("id"), command.pop("do")
        answer_output.write(
            json.dumps({"id": command_id, **run_command(driver, command_name, command)}) + "\n"
        )
        answer_output.flush()
        if command_name == "quit":
            break
    os._exit(0)  # threads of a library that hangs must not keep the process


def run_command(driver, command_name, arguments):
    """Run one command; return the answer."""
    if command_name == "quit":
        return {"ok": True}
    command_method = getattr(driver, command_name.replace("-", "_"), None)
    if command_method is None:
        return {"ok": False, "error": {"name": "UNSUPPORTED_COMMAND", "message": command_name}}
    response = (
        {"ok": True, "runtime": RUNTIME_VERSION} if command_name == "describe" else {"ok": True}
    )
    try:
        return response | (command_method(**arguments) or {})
    except Exception as error:  # a library may raise any class; the error is its answer
        return {"ok": False, "error": {**describe_error(error), **driver.error(error)}}


def describe_error(error):
    """Return the fields of an error that are the same for every library."""
    is_unsupported = isinstance(error, NotImplementedError)
    return {
        "name": "UNSUPPORTED_COMMAND" if is_unsupported else type(error).__name__,
        "class": f"{type(error).__module__}.{type(error).__qualname__}",
        "message": str(error)[:500],
        "retriable": False,
        "abortable": False,
        "fatal": False,
    }
