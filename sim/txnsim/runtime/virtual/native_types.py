"""An attribute of a compiled class, replaced for a while.

``datetime.datetime`` and the classes of C extensions refuse ``setattr``, and another class in their
place would meet ``type(x) is datetime`` and every name that was bound before. So the attribute is
put into the namespace of the class itself. CPython shows it to the collector; other
implementations may not, and then nothing is replaced.
"""

from __future__ import annotations

import ctypes
import gc
from typing import Any, Final

_PYTHON_API: Final = getattr(ctypes, "pythonapi", None)


def native_attribute(owner: type, name: str) -> Any:
    """What stands in the namespace of ``owner``, not bound to anything; None if nothing does."""
    return vars(owner).get(name)


def put_native_attribute(owner: type, name: str, value: object) -> bool:
    """Put ``value`` in the place of the attribute.

    Returns:
        Whether that is possible here.
    """
    namespaces = [
        found
        for found in gc.get_referents(vars(owner))
        if isinstance(found, dict) and name in found
    ]
    if _PYTHON_API is None or len(namespaces) != 1:
        return False
    namespaces[0][name] = value
    # Lookups of attributes are cached per class.
    _PYTHON_API.PyType_Modified(ctypes.py_object(owner))
    return True
