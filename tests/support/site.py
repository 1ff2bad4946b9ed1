"""The site of ``txnsim site build``, made once per run of tests; its parts are fetched once."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import txnsim.http.site.build as building
from tests.support.apache_kafka import digest_of, made_once

CACHE: Final = Path(__file__).parents[2] / ".cache"


def built_site(folder: Path) -> dict[str, int]:
    """Build it."""
    named = digest_of([Path(building.__file__).with_name("parts.toml")])
    given = made_once(CACHE / f"site-parts-{named}", building.fetch, lock=CACHE / "site-parts.lock")
    return building.build(folder, given=given)
