"""What lives as long as a ``with`` block, told once for all servers, tools and connections."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Lived(ABC):
    """A context manager that says only how it ends; one that has to start overrides
    ``__enter__``, too.
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._left(error)

    @abstractmethod
    def _left(self, error: BaseException | None) -> None:
        """The block has ended, with this error or well."""
