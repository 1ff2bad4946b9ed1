"""What lives as long as a ``with`` block, told once for all servers, tools and connections."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class ManagedResource(ABC):
    """A context manager that says only how it ends, and how it begins if there is something to do.
    What fails to begin ends as well.
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
        """The block is about to begin."""

    @abstractmethod
    def _on_exit(self, error: BaseException | None) -> None:
        """The block has ended, with this error or well."""
