"""Files before they are written."""

from __future__ import annotations

import io
import tarfile

from txnsim.storage.stored_file import StoredFile, tar_of

FILES = (
    StoredFile.of("a", b"12345"),
    StoredFile(path="b", parts=(b"x" * 512, b"y" * 512)).below("folder"),
    StoredFile.of("empty", b""),
)


def test_the_archive_holds_the_same_files() -> None:
    data = b"".join(tar_of(FILES, modified_ms=1_700_000_000_123))
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        found = {
            member.name: (archive.extractfile(member) or io.BytesIO()).read() for member in archive
        }
        assert {member.mtime for member in archive} == {1_700_000_000}
    assert found == {file.path: b"".join(file.parts) for file in FILES}
