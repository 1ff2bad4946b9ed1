"""The codecs of record batches, by Kafka's numbers.

gzip comes from the standard library. snappy, lz4 and zstd come from ``cramjam``, imported when the
first such batch has to be looked into; batches that are only stored and served need no codec. What
a batch decompresses to is bounded, because a kilobyte of zstd can hold 32 MB of zeros. Kafka's
counterparts are ``CompressionType`` and the classes of ``org.apache.kafka.common.compress``.
"""

from __future__ import annotations

import importlib
import mmap
import zlib
from collections.abc import Generator
from struct import Struct
from types import ModuleType
from typing import Final

from txnsim.errors import CorruptBatchError, MissingExtraError, UnpacksTooLargeError

NONE: Final = 0
GZIP: Final = 1
SNAPPY: Final = 2
LZ4: Final = 3
ZSTD: Final = 4
NAMES: Final = {NONE: "none", GZIP: "gzip", SNAPPY: "snappy", LZ4: "lz4", ZSTD: "zstd"}

DECOMPRESSED_MAX: Final = 256 << 20
"""Most bytes a batch may decompress to: 256 times the default ``message.max.bytes``."""

_GZIP_PIECE: Final = 4096
_GZIP_NS: Final = 3
"""Of a byte; other codecs are faster."""
_GZIP_CALL_NS: Final = 3_000
_NO_ROOM: Final = "failed to write whole buffer"
"""What cramjam says where the room is too small."""
_GZIP_WINDOW: Final = 31
"""zlib's window size plus 16: with gzip's header and trailer."""
_ZSTD_LEVEL: Final = 3
_XERIAL_MAGIC: Final = b"\x82SNAPPY\0"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + b"\0\0\0\x01\0\0\0\x01"
_XERIAL_BLOCK: Final = 32 << 10
_LENGTH: Final = Struct(">i")

_LZ4_HEADER: Final = bytes.fromhex("04224d18604082")
"""Magic, version 1 with independent blocks and no checksums, blocks of 64 KiB, and the header's own
checksum.
"""
_LZ4_FLAGS_AT: Final = 4
_LZ4_INDEPENDENT: Final = 0x20
_LZ4_BLOCK: Final = 1 << 16
_LZ4_STORED: Final = 1 << 31
"""Set in the length of a block that is stored as it is."""
_LZ4_END: Final = bytes(4)


def compress(codec: int, data: bytes, level: int | None = None) -> bytes:
    """Compress the records of a batch.

    Args:
        codec: Its number.
        data: The records.
        level: Of gzip and zstd; None for what Kafka calls the default.

    Raises:
        ValueError: No such codec.
        MissingExtraError: The codec needs a library that is not installed.
    """
    match codec:
        case 0:
            return data
        case 1:
            # mtime 0, so that equal records give equal bytes.
            encoder = zlib.compressobj(-1 if level is None else level, wbits=_GZIP_WINDOW)
            return encoder.compress(data) + encoder.flush()
        case 2:
            return _compress_snappy(data)
        case 3:
            return _compress_lz4(data)
        case 4:
            level = _ZSTD_LEVEL if level is None else level
            return bytes(_cramjam(codec).zstd.compress(data, level))
        case _:
            raise ValueError(f"compression {codec} is unknown")


def decompress(codec: int, data: bytes, at_most: int = DECOMPRESSED_MAX) -> bytes:
    """Decompress the records of a batch.

    Args:
        codec: Its number.
        data: What was compressed.
        at_most: Bytes that it may become.

    Raises:
        CorruptBatchError: No such codec, or undecodable.
        UnpacksTooLargeError: It is more than that.
        MissingExtraError: The codec needs a library that is not installed.
    """
    steps = decompress_in_steps(codec, data, at_most)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return bytes(end.value)


def decompress_in_steps(
    codec: int, data: bytes, at_most: int = DECOMPRESSED_MAX
) -> Generator[int, None, bytes]:
    """Do the same, step by step, so that somebody else may have a turn.

    Yields:
        About how many nanoseconds the step took; gzip alone has many of them.

    Raises:
        CorruptBatchError: No such codec, or undecodable.
        UnpacksTooLargeError: It is more than ``at_most``.
        MissingExtraError: The codec needs a library that is not installed.
    """
    match codec:
        case 0:
            return data
        case 1:
            return (yield from _decompress_gzip(data, at_most))
        case 2:
            plain = _decompress_snappy(data, at_most)
        case 3 | 4:
            plain = _decompress_frame(codec, data, at_most)
        case _:
            raise CorruptBatchError(f"compression {codec} is unknown")
    yield len(plain)
    return plain


def _decompress_gzip(data: bytes, at_most: int) -> Generator[int, None, bytes]:
    """Several gzip members may follow each other, as Java's ``GZIPInputStream`` allows.

    The decoder copies what it has not used, so it is handed small pieces: tens of thousands of
    empty members would otherwise be copied as often.
    """
    pieces: list[bytes] = []
    total = position = 0
    decoder = zlib.decompressobj(_GZIP_WINDOW)
    rest = b""
    while rest or position < len(data):
        if not rest:
            rest = data[position : position + _GZIP_PIECE]
            position += _GZIP_PIECE
        if decoder.eof:
            decoder = zlib.decompressobj(_GZIP_WINDOW)
        try:
            piece = decoder.decompress(rest, at_most - total + 1)
        except zlib.error as error:
            raise CorruptBatchError(f"gzip: {error}") from None
        rest = decoder.unused_data or decoder.unconsumed_tail
        total += len(piece)
        _check_size(GZIP, total, at_most)
        pieces.append(piece)
        yield _GZIP_CALL_NS + _GZIP_NS * len(piece)
    if data and not decoder.eof:
        raise CorruptBatchError("gzip: the stream is cut off")
    return b"".join(pieces)


def _compress_snappy(data: bytes) -> bytes:
    """In the framing of snappy-java, which Java clients write (``SnappyOutputStream``)."""
    snappy = _cramjam(SNAPPY).snappy
    pieces = [_XERIAL_HEADER]
    for start in range(0, len(data), _XERIAL_BLOCK):
        block = bytes(snappy.compress_raw(data[start : start + _XERIAL_BLOCK]))
        pieces.append(_LENGTH.pack(len(block)))
        pieces.append(block)
    return b"".join(pieces)


def _decompress_snappy(data: bytes, at_most: int) -> bytes:
    """Blocks of snappy-java, or one bare block, as librdkafka writes (``SnappyInputStream``)."""
    if not data.startswith(_XERIAL_MAGIC):
        return _decompress_block(data, 0, at_most)
    pieces: list[bytes] = []
    total = 0
    position = len(_XERIAL_HEADER)
    while position < len(data):
        if position + _LENGTH.size > len(data):
            raise CorruptBatchError("snappy: the length of a block is cut off")
        size = _LENGTH.unpack_from(data, position)[0]
        position += _LENGTH.size
        if size < 0 or size > len(data) - position:
            raise CorruptBatchError(
                f"snappy: a block of {size} bytes, {len(data) - position} are left"
            )
        piece = _decompress_block(data[position : position + size], total, at_most)
        total += len(piece)
        pieces.append(piece)
        position += size
    return b"".join(pieces)


def _decompress_block(block: bytes, before: int, at_most: int) -> bytes:
    module = _cramjam(SNAPPY)
    try:
        # The size stands at the start of a block, so it is known before anything is reserved.
        _check_size(SNAPPY, before + module.snappy.decompress_raw_len(block), at_most)
        return bytes(module.snappy.decompress_raw(block))
    except module.DecompressionError as error:
        raise CorruptBatchError(f"snappy: {error}") from None


def _decompress_frame(codec: int, data: bytes, at_most: int) -> bytes:
    """lz4 and zstd frames do not have to say how large they become.

    So they are written into anonymous memory, of which the system hands out no more than is used.
    """
    if codec == LZ4 and len(data) > _LZ4_FLAGS_AT and not data[_LZ4_FLAGS_AT] & _LZ4_INDEPENDENT:
        raise CorruptBatchError("lz4: linked blocks, which Lz4BlockInputStream does not read")
    module = _cramjam(codec)
    decoder = module.lz4 if codec == LZ4 else module.zstd
    with mmap.mmap(-1, at_most + 1) as room:
        try:
            size = decoder.decompress_into(data, room)
        except module.DecompressionError as error:
            if _NO_ROOM in str(error):
                raise UnpacksTooLargeError(NAMES[codec], at_most) from None
            raise CorruptBatchError(f"{NAMES[codec]}: not decodable: {error}") from None
        _check_size(codec, size, at_most)
        return room[:size]


def _compress_lz4(data: bytes) -> bytes:
    """An lz4 frame of independent blocks. A broker reads no others (Lz4BlockInputStream), and
    cramjam's own frames link theirs.
    """
    lz4 = _cramjam(LZ4).lz4
    pieces = [_LZ4_HEADER]
    for start in range(0, len(data), _LZ4_BLOCK):
        plain = data[start : start + _LZ4_BLOCK]
        block = bytes(lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            pieces += [len(block).to_bytes(4, "little"), block]
        else:
            pieces += [(len(plain) | _LZ4_STORED).to_bytes(4, "little"), plain]
    pieces.append(_LZ4_END)
    return b"".join(pieces)


def _check_size(codec: int, size: int, at_most: int) -> None:
    if size > at_most:
        raise UnpacksTooLargeError(NAMES[codec], at_most)


def _cramjam(codec: int) -> ModuleType:
    try:
        return importlib.import_module("cramjam")
    except ImportError:
        raise MissingExtraError(
            f"batches in {NAMES[codec]} need a library: pip install cramjam"
        ) from None
