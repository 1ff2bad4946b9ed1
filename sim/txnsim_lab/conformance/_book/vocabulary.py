"""All verbs of the casebook, with the functions that make their requests."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from txnsim_lab.conformance._book import (
    group_verbs,
    log_verbs,
    member_verbs,
    share_verbs,
    streams_verbs,
    verbs,
)
from txnsim_lab.conformance._book.values import CaseError, Variables
from txnsim_lab.conformance._book.verbs import Verb, VerbRequest

VERB_FUNCTIONS: Final[Mapping[str, Verb]] = {
    **verbs.VERBS,
    **log_verbs.VERBS,
    **group_verbs.VERBS,
    **member_verbs.VERBS,
    **share_verbs.VERBS,
    **streams_verbs.VERBS,
}


_signature = cache(inspect.signature)


def requests_of(verb: str, arguments: Any, variables: Variables) -> list[VerbRequest]:
    """The requests that a verb makes.

    Args:
        verb: The verb.
        arguments: Its resolved parameters; a single value is the first parameter.
        variables: Variables of the play.

    Raises:
        CaseError: There is no such verb, or it does not take these parameters.
    """
    make_requests = VERB_FUNCTIONS.get(verb)
    if make_requests is None:
        raise CaseError(
            f"{verb}: no word of {', '.join(sorted(VERB_FUNCTIONS))}, and no request in full"
        )
    parameters = _signature(make_requests).parameters
    if not isinstance(arguments, Mapping):
        arguments = {list(parameters)[1]: arguments}
    arguments = {
        parameter_name.replace("-", "_"): value for parameter_name, value in arguments.items()
    }
    try:
        bound_arguments = _signature(make_requests).bind(variables, **arguments)
    except TypeError as error:
        raise CaseError(f"{verb}: {error}; it takes {', '.join(list(parameters)[1:])}") from None
    return make_requests(*bound_arguments.args, **bound_arguments.kwargs)
