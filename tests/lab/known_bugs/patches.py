"""How a bug is put into the code: a patch of one function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec


class Patch(msgspec.Struct, frozen=True):
    """A bug as a change of one function."""

    wrong: Callable[[Any], Any]
    """The function as it is -> the one with the bug."""
    differs: Callable[[Any, tuple[Any, ...], dict[str, Any]], bool] = lambda *_: True
    """From the sound answer to a call: whether the bug would have made a difference there. A call
    that it can't tell of counts as one.
    """
    before: Callable[[tuple[Any, ...], dict[str, Any]], Any] | None = None
    """Where the answer does not tell: from the arguments, whether there is anything to be done; or
    something to be asked the same of after the call.
    """


def gives(answer: Any = None) -> Patch:
    """Patch a function without effects, so that it returns this answer."""
    return Patch(
        lambda _function: lambda *_args, **_named: answer, lambda result, *_: bool(result != answer)
    )


def does_nothing(
    answer: Any = None, *, unless: Callable[[tuple[Any, ...], dict[str, Any]], Any] | None = None
) -> Patch:
    """The same of one that does something; ``unless`` there is nothing to be done, if that is
    known.
    """
    return Patch(gives(answer).wrong, before=unless)


def but_not(is_affected: Callable[..., bool], answer: Any = None) -> Patch:

    def patch(function: Any) -> Any:
        def wrong(*args: Any, **keywords: Any) -> Any:
            return answer if is_affected(*args, **keywords) else function(*args, **keywords)

        return wrong

    return Patch(patch, lambda _, args, keywords: is_affected(*args, **keywords))


def makes(change: Callable[..., Any]) -> Patch:
    """The answer is changed: ``change(answer, *args, **named)``."""

    def patch(function: Any) -> Any:
        def wrong(*args: Any, **keywords: Any) -> Any:
            return change(function(*args, **keywords), *args, **keywords)

        return wrong

    return Patch(
        patch, lambda result, args, keywords: bool(change(result, *args, **keywords) != result)
    )


def changes(change: Callable[..., Any]) -> Patch:
    """Patch a function by another function, which may change its effects as well."""
    return Patch(makes(change).wrong)


def with_named_arguments(**changed: Any) -> Patch:
    return Patch(
        lambda function: lambda *args, **keywords: function(*args, **{**keywords, **changed}),
        lambda _result, _args, keywords: any(
            keywords.get(name) != changed[name] for name in changed
        ),
    )
