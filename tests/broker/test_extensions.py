from __future__ import annotations

import sys
from pathlib import Path

import pytest

from txnsim import extensions
from txnsim.errors import MissingExtraError
from txnsim.extensions import OnDemand


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An extension with two modules."""
    folder = tmp_path / "extension_of_a_test"
    (folder / "cli").mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "cli" / "__init__.py").touch()
    (folder / "cli" / "commands.py").write_text("TABLE = 7\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(extensions, "EXTENSIONS", (folder.name, "no_such_extension"))
    for name in ("", ".cli", ".cli.commands"):
        monkeypatch.delitem(sys.modules, f"{folder.name}{name}", raising=False)
    return folder.name


def test_what_an_extension_offers_is_imported_when_it_is_asked_for(package: str) -> None:
    found = extensions.offered("cli.commands")
    assert package not in sys.modules
    assert [one.TABLE for one in found] == [7]
    assert list(extensions.offered("http.control_port")) == []
    assert extensions.missing() == ("no_such_extension",)


def test_what_is_borrowed_names_the_package_that_is_missing(package: str) -> None:
    assert extensions.borrowed(f"{package}.cli.commands", "commands").TABLE == 7
    for name in ("no_such_extension.check", f"{package}.check"):
        missing = name.partition(".")[0]
        with pytest.raises(MissingExtraError, match=f"^`x` comes with {missing}, which is not"):
            extensions.borrowed(name, "`x`")


def test_a_package_of_which_only_data_is_there_is_missing(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / package / "__init__.py").unlink()
    assert extensions.missing() == (package, "no_such_extension")


def test_libraries_of_an_extra_are_asked_for_by_name() -> None:
    extensions.require_libraries("http", "msgspec", "json")
    with pytest.raises(MissingExtraError, match=r"the extra spark is not installed: pip install"):
        extensions.require_libraries("spark", "json", "no_such_library")


# What stands for a module is imported with the first attribute that is asked for


MODULE = "wsgiref.validate"


def test_a_module_is_imported_when_something_of_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    module = OnDemand(MODULE)
    assert MODULE not in sys.modules
    found = module.validator
    assert found is sys.modules[MODULE].validator
    assert vars(module)["validator"] is found, "asked for again it is an attribute"
    with pytest.raises(AttributeError, match="nothing"):
        _ = module.nothing
