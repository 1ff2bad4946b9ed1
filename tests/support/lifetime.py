"""The base class of servers, tools and connections that live as long as a ``with`` block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class ManagedResource(ABC):
    """A context manager. Subclasses define ``_on_exit``, and ``_on_enter`` if there is something to
    do. If ``_on_enter`` fails, ``_on_exit`` runs as well.
    """

    def __enter__(self) -> Self:
        try:
            self._on_enter()
        except BaseException as error:
            self._on_exit(error)
            raise
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._on_exit(error)

    def _on_enter(self) -> None:  # noqa: B027 - most have nothing to do
        """Called before the block begins."""

    @abstractmethod
    def _on_exit(self, error: BaseException | None) -> None:
        """Called when the block has ended, with its error or None."""
