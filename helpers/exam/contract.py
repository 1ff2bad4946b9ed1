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
RUNTIME = f"{platform.python_implementation()} {platform.python_version()}"


def serve(driver):
    """Answer commands until standard input ends.

    Args:
        driver: ``describe()``, ``error(raised)`` and the commands as methods.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # a library that prints must not write between the answers
    for line in sys.stdin:
        command = json.loads(line)
        number, verb = command.pop("id"), command.pop("do")
        answers.write(json.dumps({"id": number, **answer(driver, verb, command)}) + "\n")
        answers.flush()
        if verb == "quit":
            break
    os._exit(0)  # threads of a library that hangs must not keep the process


def answer(driver, verb, arguments):
    """Run one command; return the answer."""
    if verb == "quit":
        return {"ok": True}
    method = getattr(driver, verb.replace("-", "_"), None)
    if method is None:
        return {"ok": False, "error": {"name": "UNSUPPORTED_COMMAND", "message": verb}}
    response = {"ok": True, "runtime": RUNTIME} if verb == "describe" else {"ok": True}
    try:
        return response | (method(**arguments) or {})
    except Exception as error:  # a library may raise any class; the error is its answer
        return {"ok": False, "error": {**describe_error(error), **driver.error(error)}}


def describe_error(error):
    """The fields of an error that are the same for every library."""
    is_unsupported = isinstance(error, NotImplementedError)
    return {
        "name": "UNSUPPORTED_COMMAND" if is_unsupported else type(error).__name__,
        "class": f"{type(error).__module__}.{type(error).__qualname__}",
        "message": str(error)[:500],
        "retriable": False,
        "abortable": False,
        "fatal": False,
    }
