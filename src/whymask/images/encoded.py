"""Checks image files before they are decoded, and passes only the parts that hold pixels to the decoder.

A small file can ask for hours of work: scans that go over the whole image again, thousands of compressed profiles,
EXIF entries that all point at the same megabytes. Decoders follow such requests, so they are rejected or removed here.
"""

import re
import struct
import zlib
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from io import BytesIO
from typing import Literal

from PIL import Image

MAX_SCANS = 100  # of a JPEG; progressive files have about 10
MAX_SCANNED = 1_000_000_000  # pixels that all scans of a JPEG go over together: about 2 s
MAX_SEGMENTS = 10_000  # of a JPEG: tables, metadata, scans
MAX_PIECES = 100_000  # strips or tiles of a TIFF
MAX_RUN_LENGTH = 16_000_000  # pixels of a run-length encoded BMP, which Pillow decodes in Python
MAX_METADATA = 2**16  # bytes that are searched for an orientation

TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
ORDERS: dict[bytes, Literal["little", "big"]] = {b"II": "little", b"MM": "big"}
MARKER = re.compile(rb"\xff[\x01-\xcf\xd8-\xfe]")  # neither an escaped byte of a scan nor a restart within it
SCAN, DATA = 0xDA, 0x00  # the marker that starts a scan; stands for data without a marker
FRAMES = {0xC0, 0xC1, 0xC2, 0xC3, 0xC5, 0xC6, 0xC7}
ARITHMETIC = {0xC9, 0xCA, 0xCB, 0xCD, 0xCE, 0xCF}  # a scan of a few bytes can stand for every coefficient
XMP = re.compile(rb"tiff:Orientation(?:=\"|>)([0-9])")
DECODED = {DATA, SCAN, 0xDB, 0xDC, 0xDD, 0xE0, 0xEE, 0xC4, *FRAMES}  # scans, tables, frames, colour transform


class TooMuchWorkError(ValueError):
    """A file asks for more work than a normal image needs."""


def open_image(content: bytes, formats: tuple[str, ...]) -> tuple[Image.Image, Image.Transpose | None]:
    """The image in a file, not decoded yet, and how to turn it once it is.

    Raises:
        TooMuchWorkError: where decoding could take more than a few seconds.
        OSError, SyntaxError, ValueError, EOFError: where the file is broken.
    """
    exif = xmp = b""
    if content.startswith(b"\xff\xd8\xff"):
        content, exif, xmp = _bare_jpeg(content)
    elif content.startswith(b"\x89PNG\r\n\x1a\n"):
        content, exif, xmp = _bare_png(content)
    elif content[:2] in ORDERS and content[2:4].strip(b"\0") in (b"*", b"+"):
        _check_tiff(content)
    elif content[4:8] == b"ftyp" and "HEIF" in formats:
        with suppress(ImportError):
            import_module("pillow_heif").register_heif_opener(thumbnails=False)
    Image.init()
    image = Image.open(BytesIO(content), formats=[kind for kind in formats if kind in Image.OPEN])
    if image.tile and image.tile[0][0] == "bmp_rle" and image.width * image.height > MAX_RUN_LENGTH:
        raise TooMuchWorkError(f"it is run-length encoded and has over {MAX_RUN_LENGTH / 1e6:.0f} megapixels")
    if image.format in ("WEBP", "AVIF", "HEIF"):
        exif, xmp = (image.info.pop(name, None) or b"" for name in ("exif", "xmp"))
    return image, TURNS.get(_orientation(exif, xmp))


def _bare_jpeg(content: bytes) -> tuple[bytes, bytes, bytes]:
    """The segments of a JPEG that the decoder needs, its EXIF and its XMP."""
    kept, exif, xmp = [b"\xff\xd8"], b"", b""
    area = scans = 0
    for marker, segment, body in _segments(content):
        if marker in DECODED:
            kept.append(segment)
        elif marker == 0xE1 and body.startswith(b"Exif\0\0"):
            exif = exif or body
        elif marker == 0xE1 and body.startswith(b"http://ns.adobe.com/xap/1.0/\0"):
            xmp = xmp or body
        if marker in ARITHMETIC:
            raise TooMuchWorkError("it is a JPEG with arithmetic coding")
        if marker in FRAMES:
            height, width = (-(-int.from_bytes(body[i : i + 2], "big") // 32) * 32 for i in (1, 3))
            area = max(area, height * width)  # in whole blocks: a narrow image has more of them than its pixels fill
        scans += marker == SCAN
        if scans > MAX_SCANS or (scans > 1 and scans * area > MAX_SCANNED):
            raise TooMuchWorkError(f"it has {scans} or more scans of {area / 1e6:.1f} megapixels")
    return b"".join(kept), exif, xmp


def _segments(content: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """(marker, the whole segment, its body) of a JPEG; what lies between segments, and its end, is DATA."""
    at, scanned, marker = 2, False, DATA
    for _ in range(MAX_SEGMENTS):
        found = MARKER.search(content, at)
        if marker == SCAN:
            yield DATA, content[at : found.start() if found else len(content)], b""
        if found is None:
            return
        marker, at = content[found.end() - 1], found.end()
        if marker == 0xD9:
            yield DATA, b"\xff\xd9", b""
            return
        if marker in (0x01, 0xD8):  # these have no body
            continue
        start, at = at, at + int.from_bytes(content[at : at + 2], "big")
        if at < start + 2 or at > len(content):
            if not scanned:
                raise ValueError("a segment is cut off")
            yield DATA, content[found.start() :], b""  # an image without an end marker, as Pillow would see it
            return
        scanned = scanned or marker == SCAN
        yield marker, b"\xff" + content[start - 1 : at], content[start + 2 : at]
    raise TooMuchWorkError(f"it has more than {MAX_SEGMENTS} segments")


def _bare_png(content: bytes) -> tuple[bytes, bytes, bytes]:
    """The chunks of a PNG that the decoder needs, with the data in one piece, its EXIF and its XMP."""
    kept: dict[bytes, bytes] = {}
    data: list[bytes] = []
    exif, xmp, at = b"", b"", 8
    while at + 8 <= len(content):
        length, kind = struct.unpack_from(">I4s", content, at)
        if kind == b"IDAT":
            data.append(content[at + 8 : at + 8 + length])
        elif kind in (b"IHDR", b"PLTE", b"tRNS") and not data:
            kept.setdefault(kind, content[at : at + 12 + length])
        elif kind == b"eXIf":
            exif = exif or content[at + 8 : at + 8 + length]
        elif kind in (b"iTXt", b"tEXt", b"zTXt") and not xmp:
            name, _, text = content[at + 8 : at + 8 + length].partition(b"\0")
            if name == b"XML:com.adobe.xmp":
                xmp = text
            elif name == b"Raw profile type exif" and not exif:
                exif = _raw_profile(text, compressed=kind == b"zTXt")
        elif kind == b"IEND" or not kind.isalpha():
            break
        at += 12 + length
    pixels = b"".join(data)
    end = struct.pack(">I4sI", 0, b"IEND", zlib.crc32(b"IEND"))
    whole = struct.pack(">I4s", len(pixels), b"IDAT") + pixels + struct.pack(">I", zlib.crc32(b"IDAT" + pixels))
    return b"".join([content[:8], *kept.values(), whole, end]), exif, xmp


def _raw_profile(text: bytes, compressed: bool) -> bytes:
    """EXIF as ImageMagick writes it into a text: a name, a length, and lines of hexadecimal digits."""
    try:
        if compressed:
            text = zlib.decompressobj().decompress(text[1:], MAX_METADATA)
        return bytes.fromhex("".join(text[:MAX_METADATA].decode("ascii").split("\n")[3:])[: MAX_METADATA // 2])
    except (ValueError, zlib.error):
        return b""


def _check_tiff(content: bytes) -> None:
    """Raise an error where a TIFF's directory asks for more than the file can hold, or for too many pieces."""
    entries = list(_entries(content))
    if sum(count for _, count, _ in entries) > len(content):
        raise ValueError("its directory is larger than the file")
    pieces = max((count for tag, count, _ in entries if tag in (273, 324)), default=0)  # strips or tiles
    if pieces > MAX_PIECES:
        raise TooMuchWorkError(f"it has {pieces} strips")


def _orientation(exif: bytes, xmp: bytes) -> int:
    """The orientation that EXIF, or else XMP, gives, from 1 to 8; 0 where there is none."""
    for tag, _, value in _entries(exif.removeprefix(b"Exif\0\0")):
        if tag == 0x0112:
            return value
    found = XMP.search(xmp, 0, MAX_METADATA)
    return int(found[1]) if found else 0


def _entries(data: bytes) -> Iterator[tuple[int, int, int]]:
    """The first directory of TIFF or EXIF data: (tag, number of values, the value where it is one SHORT or LONG)."""
    order = ORDERS.get(data[:2])
    if order is None:
        return
    big = data[2:3] == b"+"
    wide, head = (8, 8) if big else (4, 2)

    def number(at: int, size: int) -> int:
        return int.from_bytes(data[at : at + size], order)

    start = number(wide, wide)
    first, step = start + head, 4 + 2 * wide
    for at in range(first, min(first + step * number(start, head), len(data)), step):
        yield number(at, 2), number(at + 4, wide), number(at + 4 + wide, {3: 2, 4: 4}.get(number(at + 2, 2), 0))
