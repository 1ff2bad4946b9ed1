"""The codecs of record batches, by Kafka's numbers.

gzip comes from the standard library. snappy, lz4 and zstd come from ``cramjam``, which is imported
when the first such batch has to be decompressed; batches that are only stored and served need no
codec. The decompressed size of a batch is limited, because a kilobyte of zstd can hold 32 MB of
zeros. Kafka's counterparts are ``CompressionType`` and the classes of
``org.apache.kafka.common.compress``.
"""

from __future__ import annotations

import importlib
import mmap
import zlib
from collections.abc import Iterable, Iterator
from struct import Struct
from types import ModuleType
from typing import Final, NamedTuple

from txnsim.errors import CorruptBatchError, MissingExtraError, UnpacksTooLargeError

NONE: Final = 0
GZIP: Final = 1
SNAPPY: Final = 2
LZ4: Final = 3
ZSTD: Final = 4
CODEC_NAMES: Final = {NONE: "none", GZIP: "gzip", SNAPPY: "snappy", LZ4: "lz4", ZSTD: "zstd"}

DECOMPRESSED_MAX: Final = 256 << 20
"""Largest decompressed size of a batch, in bytes: 256 times the default ``message.max.bytes``."""

AT_ONCE_MAX: Final = 256 << 10
"""Number of bytes that are decompressed without a break, in a millisecond at most."""
_AT_ONCE_MEMBERS_MAX: Final = 64
"""Most gzip members in data that is decompressed without a break."""

_GZIP_PIECE: Final = 4096
_NO_ROOM_ERROR: Final = "failed to write whole buffer"
"""cramjam's error text if the output does not fit."""
_GZIP_WINDOW: Final = 31
"""zlib's window size plus 16, for data with gzip's header and trailer."""
_ZSTD_LEVEL: Final = 3
_ZSTD_FLUSH: Final = 1 << 20
"""Number of bytes after which a zstd stream is flushed: until then it keeps its output in memory,
and every flush costs bytes.
"""
_XERIAL_MAGIC: Final = b"\x82SNAPPY\0"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + b"\0\0\0\x01\0\0\0\x01"
_XERIAL_BLOCK: Final = 32 << 10
_BLOCK_LENGTH: Final = Struct(">i")

_LZ4_HEADER: Final = bytes.fromhex("04224d18604082")
"""Header of an lz4 frame: magic, version 1 with independent blocks and no checksums, blocks of 64
KiB, and the header's own checksum.
"""
_LZ4_FLAGS_POSITION: Final = 4
_LZ4_INDEPENDENT: Final = 0x20
_LZ4_BLOCK: Final = 1 << 16
_LZ4_STORED: Final = 1 << 31
"""Bit in the length of a block that is not compressed."""
_LZ4_END: Final = bytes(4)


def compress(codec: int, data: bytes, level: int | None = None) -> bytes:
    """Compress the records of a batch, by default with Kafka's level of the codec.

    Raises:
        ValueError: There is no such codec.
        MissingExtraError: The codec needs a library that is not installed.
    """
    match codec:
        case 0:
            return data
        case 4:
            level = _ZSTD_LEVEL if level is None else level
            return bytes(_cramjam(codec).zstd.compress(data, level))
        case _:
            return b"".join(compress_in_pieces(codec, (data,)))


def compress_in_pieces(
    codec: int, pieces: Iterable[bytes], level: int | None = None
) -> Iterator[bytes]:
    """Do the same as ``compress`` piece by piece, for data that should not be in memory twice.

    Raises:
        ValueError: There is no such codec.
        MissingExtraError: The codec needs a library that is not installed.
    """
    match codec:
        case 0:
            yield from pieces
        case 1:
            # mtime is 0, so that equal records give equal bytes.
            encoder = zlib.compressobj(-1 if level is None else level, wbits=_GZIP_WINDOW)
            yield from map(encoder.compress, pieces)
            yield encoder.flush()
        case 2:
            yield _XERIAL_HEADER
            yield from map(_snappy_block, _cut_into_blocks(pieces, _XERIAL_BLOCK))
        case 3:
            yield _LZ4_HEADER
            yield from map(_lz4_block, _cut_into_blocks(pieces, _LZ4_BLOCK))
            yield _LZ4_END
        case 4:
            stream = _cramjam(codec).zstd.Compressor(_ZSTD_LEVEL if level is None else level)
            unflushed_bytes = 0
            for piece in pieces:
                stream.compress(piece)
                unflushed_bytes += len(piece)
                if unflushed_bytes >= _ZSTD_FLUSH:
                    unflushed_bytes = 0
                    yield bytes(stream.flush())
            yield bytes(stream.finish())
        case _:
            raise ValueError(f"compression {codec} is unknown")


def _cut_into_blocks(pieces: Iterable[bytes], block_bytes: int) -> Iterator[bytes]:
    """Cut the data into blocks of ``block_bytes`` bytes; the last block may be shorter."""
    remainder = b""
    for piece in pieces:
        data = remainder + piece if remainder else piece
        whole_blocks_end = len(data) - len(data) % block_bytes
        for block_start in range(0, whole_blocks_end, block_bytes):
            yield data[block_start : block_start + block_bytes]
        remainder = data[whole_blocks_end:]
    if remainder:
        yield remainder


def decompress(codec: int, data: bytes, bytes_max: int = DECOMPRESSED_MAX) -> bytes:
    """Decompress the records of a batch.

    Raises:
        CorruptBatchError: There is no such codec, or the data is malformed.
        UnpacksTooLargeError: The result has more than ``bytes_max`` bytes.
        MissingExtraError: The codec needs a library that is not installed.
    """
    match codec:
        case 0:
            return data
        case 1:
            return _decompress_gzip(data, bytes_max)
        case 2:
            return _decompress_snappy(data, bytes_max)
        case 3 | 4:
            return _decompress_frame(codec, data, bytes_max)
        case _:
            raise CorruptBatchError(f"compression {codec} is unknown")


def decompress_at_once(codec: int, data: bytes) -> bytes | None:
    """Decompress records that are small enough for one turn of the event loop.

    Returns:
        The records; None if it may be more work (``PackedRecords`` is for that).

    Raises:
        CorruptBatchError: There is no such codec, or the data is malformed.
        MissingExtraError: The codec needs a library that is not installed.
    """
    if len(data) > AT_ONCE_MAX:
        return None
    try:
        if codec == GZIP:
            return _decompress_gzip(data, AT_ONCE_MAX, members_max=_AT_ONCE_MEMBERS_MAX)
        return decompress(codec, data, AT_ONCE_MAX)
    except UnpacksTooLargeError:
        return None


class PackedRecords(NamedTuple):
    """Compressed records that take long to decompress, with all that a thread needs for it."""

    codec: int
    data: bytes
    bytes_max: int
    """Limit of their decompressed size, in bytes."""

    @property
    def room_bytes(self) -> int:
        """Number of bytes that ``unpack`` needs."""
        return self.bytes_max + 1

    def unpack(self, output_memory: mmap.mmap) -> memoryview:
        """Decompress into ``output_memory``; the result is a part of it.

        Other threads can run meanwhile: the libraries release the interpreter's lock.

        Raises:
            CorruptBatchError: The data is malformed.
            UnpacksTooLargeError: The result has more than ``bytes_max`` bytes.
        """
        if self.codec == SNAPPY:
            output_bytes = _decompress_snappy_into(self.data, output_memory, self.bytes_max)
        else:
            output_bytes = _decompress_into(self.codec, self.data, output_memory, self.bytes_max)
        return memoryview(output_memory)[:output_bytes]


def _decompress_gzip(data: bytes, bytes_max: int, members_max: int | None = None) -> bytes:
    """Decompress gzip. Several members may follow each other, as Java's ``GZIPInputStream`` allows.

    The decoder copies data that it has not used, so it gets small pieces: otherwise tens of
    thousands of empty members would be copied again and again.
    """
    decompressed_pieces: list[bytes] = []
    total_bytes = position = member_count = 0
    decoder = zlib.decompressobj(_GZIP_WINDOW)
    unread_bytes = b""
    while unread_bytes or position < len(data):
        if not unread_bytes:
            unread_bytes = data[position : position + _GZIP_PIECE]
            position += _GZIP_PIECE
        if decoder.eof:
            decoder = zlib.decompressobj(_GZIP_WINDOW)
            member_count += 1
            if member_count == members_max:
                raise UnpacksTooLargeError(CODEC_NAMES[GZIP], bytes_max)
        try:
            decompressed_piece = decoder.decompress(unread_bytes, bytes_max - total_bytes + 1)
        except zlib.error as error:
            raise CorruptBatchError(f"gzip: {error}") from None
        unread_bytes = decoder.unused_data or decoder.unconsumed_tail
        total_bytes += len(decompressed_piece)
        _check_size(GZIP, total_bytes, bytes_max)
        decompressed_pieces.append(decompressed_piece)
    if data and not decoder.eof:
        raise CorruptBatchError("gzip: the stream is cut off")
    return b"".join(decompressed_pieces)


def _snappy_block(plain_block: bytes) -> bytes:
    """A block in the format of snappy-java, which Java clients write (``SnappyOutputStream``)."""
    block = bytes(_cramjam(SNAPPY).snappy.compress_raw(plain_block))
    return _BLOCK_LENGTH.pack(len(block)) + block


def _decompress_snappy(data: bytes, bytes_max: int) -> bytes:
    with mmap.mmap(-1, bytes_max + 1) as output_memory:
        return output_memory[: _decompress_snappy_into(data, output_memory, bytes_max)]


def _decompress_snappy_into(data: bytes, output_memory: mmap.mmap, bytes_max: int) -> int:
    """Decompress blocks of snappy-java, or a single bare block, as librdkafka writes it
    (``SnappyInputStream``); returns the number of bytes.
    """
    with memoryview(output_memory) as output_view:
        if not data.startswith(_XERIAL_MAGIC):
            return _decompress_block_into(data, output_view, 0, bytes_max)
        output_bytes = 0
        position = len(_XERIAL_HEADER)
        while position < len(data):
            if position + _BLOCK_LENGTH.size > len(data):
                raise CorruptBatchError("snappy: the length of a block is cut off")
            block_size = _BLOCK_LENGTH.unpack_from(data, position)[0]
            position += _BLOCK_LENGTH.size
            if block_size < 0 or block_size > len(data) - position:
                raise CorruptBatchError(
                    f"snappy: a block of {block_size} bytes, {len(data) - position} are left"
                )
            output_bytes += _decompress_block_into(
                data[position : position + block_size], output_view, output_bytes, bytes_max
            )
            position += block_size
        return output_bytes


def _decompress_block_into(
    block: bytes, output_view: memoryview, output_position: int, bytes_max: int
) -> int:
    cramjam = _cramjam(SNAPPY)
    try:
        # The size stands at the start of a block, so it is known before anything is written.
        decompressed_size = cramjam.snappy.decompress_raw_len(block)
        _check_size(SNAPPY, output_position + decompressed_size, bytes_max)
        with output_view[output_position : output_position + decompressed_size] as output_part:
            return int(cramjam.snappy.decompress_raw_into(block, output_part))
    except cramjam.DecompressionError as error:
        raise CorruptBatchError(f"snappy: {error}") from None


def _decompress_frame(codec: int, data: bytes, bytes_max: int) -> bytes:
    """Decompress an lz4 or zstd frame, which need not say how large it becomes.

    So the result goes into anonymous memory, of which the system only provides as much as is used.
    """
    with mmap.mmap(-1, bytes_max + 1) as output_memory:
        return output_memory[: _decompress_into(codec, data, output_memory, bytes_max)]


def _decompress_into(codec: int, data: bytes, output_memory: mmap.mmap, bytes_max: int) -> int:
    """Decompress lz4 and zstd frames and gzip members into ``output_memory``; returns the
    number of bytes.
    """
    if (
        codec == LZ4
        and len(data) > _LZ4_FLAGS_POSITION
        and not data[_LZ4_FLAGS_POSITION] & _LZ4_INDEPENDENT
    ):
        raise CorruptBatchError("lz4: linked blocks, which Lz4BlockInputStream does not read")
    cramjam = _cramjam(codec)
    decoder = {GZIP: cramjam.gzip, LZ4: cramjam.lz4, ZSTD: cramjam.zstd}[codec]
    try:
        size = int(decoder.decompress_into(data, output_memory))
    except cramjam.DecompressionError as error:
        if _NO_ROOM_ERROR in str(error):
            raise UnpacksTooLargeError(CODEC_NAMES[codec], bytes_max) from None
        raise CorruptBatchError(f"{CODEC_NAMES[codec]}: not decodable: {error}") from None
    _check_size(codec, size, bytes_max)
    return size


def _lz4_block(plain_block: bytes) -> bytes:
    """An independent block of an lz4 frame. A broker reads no others (Lz4BlockInputStream), and the
    blocks of cramjam's own frames depend on each other.
    """
    block = bytes(_cramjam(LZ4).lz4.compress_block(plain_block, store_size=False))
    if len(block) < len(plain_block):
        return len(block).to_bytes(4, "little") + block
    return (len(plain_block) | _LZ4_STORED).to_bytes(4, "little") + plain_block


def _check_size(codec: int, size: int, bytes_max: int) -> None:
    if size > bytes_max:
        raise UnpacksTooLargeError(CODEC_NAMES[codec], bytes_max)


def _cramjam(codec: int) -> ModuleType:
    try:
        return importlib.import_module("cramjam")
    except ImportError:
        raise MissingExtraError(
            f"batches in {CODEC_NAMES[codec]} need a library: pip install cramjam"
        ) from None
