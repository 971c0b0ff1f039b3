"""Two hundred image files made to break a reader, the same ones for a seed."""

import random
import struct
import zlib
from functools import partial
from io import BytesIO
from itertools import chain, islice

import numpy as np
from PIL import Image

from whymask.images.imaging import FORMATS

SIDE = 5000  # 25 megapixels: the largest image that the served page takes
Image.init()
COUNT = 200


def files(seed=0):
    """(name, function that makes it) of every file: bombs, files of other kinds, damaged copies of good files."""
    yield from islice(chain(bombs(), strange(), damaged(seed)), COUNT)


def encoded(kind, image=None, **options):
    """A small picture of noise, or this image, as a file."""
    if image is None:
        image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (36, 48, 3)).astype(np.uint8))
    out = BytesIO()
    image.save(out, format=kind, **options)
    return out.getvalue()


def damaged(seed):
    """Good files of every format, cut off, with bits flipped, and with bytes of their headers replaced."""
    rng = random.Random(seed)
    for turn in range(12):
        for kind in (kind for kind in FORMATS if kind in Image.SAVE):
            good = encoded(kind)
            cut = rng.randrange(1, len(good))
            flips = [(rng.randrange(len(good)), 1 << rng.randrange(8)) for _ in range(rng.choice((1, 8, 64)))]
            flips_ahead = [(rng.randrange(min(64, len(good))), rng.randrange(1, 256)) for _ in range(3)]
            yield f"{kind} cut off {turn}", partial(bytes, good[:cut])
            yield f"{kind} flipped {turn}", partial(flipped, good, flips)
            yield f"{kind} header {turn}", partial(flipped, good, flips_ahead)


def flipped(good, flips):
    """A file with bits flipped: (place, bits)."""
    content = bytearray(good)
    for place, bits in flips:
        content[place] ^= bits
    return bytes(content)


def strange():
    """Files that are two things at once, or no image that is read."""
    jpeg, png = encoded("JPEG"), encoded("PNG")
    for name, content in (
        ("empty", b""),
        ("text", b"just text"),
        ("svg", b"<svg xmlns='http://www.w3.org/2000/svg'/>"),
        ("eps", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\nquit\n"),
        ("other kind", encoded("PPM")),
        ("gif and script", b"GIF89a/*" + b"\0" * 50 + b"*/=1;alert(1)"),
        ("script in png", png[:16] + b"<script>alert(1)</script>" + png[16:]),
        ("zip before jpeg", b"PK\x03\x04" + jpeg),
        ("page after jpeg", jpeg + b"<script>alert(1)</script>"),
        ("jpeg in png", png[:33] + chunk(b"jpEg", jpeg) + png[33:]),
        ("png signature", b"\x89PNG\r\n\x1a\n" + b"\xff" * 500),
        ("jpeg signature", b"\xff\xd8\xff" + b"\xff" * 500),
        ("tiff of nothing", b"II*\0\x08\0\0\0\0\0\0\0\0\0"),
        ("webp of nothing", b"RIFF\x0c\0\0\0WEBPVP8 \0\0\0\0"),
        ("bmp of nothing", b"BM" + bytes(52)),
    ):
        yield name, partial(bytes, content)


def bombs():
    """Small files that ask for much time or memory."""
    yield from jpeg_bombs()
    yield from png_bombs()
    yield from tiff_bombs()
    yield from other_bombs()


def segment(marker, body):
    """A segment of a JPEG."""
    return bytes((0xFF, marker)) + struct.pack(">H", len(body) + 2) + body


def scan_bomb(side=SIDE, scans=1500, progressive=True):
    """A JPEG that repeats its last scan."""
    good = encoded("JPEG", Image.new("L", (side, side)), progressive=progressive)
    last = good[good.rindex(b"\xff\xda") : -2]
    return good[:-2] + last * (scans - good.count(b"\xff\xda")) + b"\xff\xd9"


def crowded_exif(entries, size, head=b"Exif\0\0"):
    """EXIF whose entries all hold the same `size` bytes."""
    body = b"".join(struct.pack("<HHLL", 1000 + i, 1, size, 8) for i in range(entries))
    directory = b"II*\0\x08\0\0\0" + struct.pack("<H", entries) + body + bytes(4)
    return head + directory.ljust(size + 8, b"\0")


def exif_in_parts():
    """EXIF over many segments, which some readers put together."""
    exif = crowded_exif(60_000, 3_000_000, b"")
    parts = [segment(0xE1, b"Exif\0\0" + exif[at : at + 65_000]) for at in range(0, len(exif), 65_000)]
    return b"".join(parts)


def jpeg_bombs():
    jpeg = encoded("JPEG")
    begin, rest = jpeg[:2], jpeg[20:]  # without its JFIF segment

    def crowded(marker, head):
        return begin + segment(marker, crowded_exif(5000, 65_000, head)[:65_533]) + rest

    return {
        "jpeg of 1,500 scans": scan_bomb,
        "jpeg of 90 scans": lambda: scan_bomb(scans=90),
        "narrow jpeg of many scans": lambda: scan_bomb(side=8, scans=100_000),
        "baseline jpeg of many scans": lambda: scan_bomb(scans=60, progressive=False),
        "jpeg of restarted scans": lambda: scan_bomb(side=64).replace(b"\xff\xda", b"\xff\xd0\xff\xff\xda"),
        "arithmetic jpeg of 30 scans": lambda: scan_bomb(scans=30).replace(b"\xff\xc2", b"\xff\xca", 1),
        "jpeg whose comment looks like scans": lambda: begin + segment(0xFE, b"\xff\xda" * 9000) + rest,
        "jpeg of many comments": lambda: begin + segment(0xFE, b"") * 1_000_000 + rest,
        "jpeg of many tables": lambda: begin + segment(0xDB, bytes(1) + b"\1" * 64) * 60_000 + rest,
        "jpeg with crowded exif": lambda: crowded(0xE1, b"Exif\0\0"),
        "jpeg with crowded mpf": lambda: crowded(0xE2, b"MPF\0"),
        "jpeg with exif in parts": lambda: begin + exif_in_parts() + rest,
        "jpeg with a large profile": lambda: begin + segment(0xE2, b"ICC_PROFILE\0\1\1" + bytes(65_000)) * 100 + rest,
        "jpeg of 4,225 megapixels": lambda: jpeg.replace(b"\0\x24\0\x30", struct.pack(">HH", 65_000, 65_000), 1),
        "jpeg that ends in a segment": lambda: begin + b"\xff\xe1\xff\xff" + rest[:100],
        "jpeg with many fill bytes": lambda: begin + b"\xff" * 9_000_000 + b"\0" + rest,
        "jpeg with many fill bytes in its scan": lambda: jpeg[:-2] + b"\xff" * 9_000_000 + b"\0" + jpeg[-2:],
    }.items()


def chunk(kind, body):
    """A chunk of a PNG."""
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png(width=8, height=8, *, depth=8, colour=2, interlaced=0, before=b"", data=(b"\0" + bytes(24)) * 8, after=b""):
    """A PNG with chunks before and after its data."""
    head = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlaced)
    body = chunk(b"IDAT", zlib.compress(data, 1))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + before + body + after + chunk(b"IEND", b"")


def png_bombs():
    def compressed(kind, size):
        return chunk(kind, b"a\0\0" + zlib.compress(bytes(size), 1))

    frame = chunk(b"fcTL", struct.pack(">IIIIIHHBB", 0, 8, 8, 0, 0, 1, 1, 0, 0))
    counted = chunk(b"acTL", struct.pack(">II", 100_000, 0))
    exif = partial(crowded_exif, 60_000, 3_000_000, b"")
    for width, height in ((60_000, 60_000), (2**31 - 1, 1), (2**32 - 1, 2**32 - 1), (0, 9), (20_000, 10_000)):
        yield f"png of {width} x {height}", partial(png, width, height, data=b"")
    yield from {
        "png with a text of 50 MB": lambda: png(before=compressed(b"zTXt", 50_000_000)),
        "png with a profile of 50 MB": lambda: png(before=compressed(b"iCCP", 50_000_000)),
        "png with many profiles": lambda: png(before=compressed(b"iCCP", 1_000_000) * 2000),
        "png with many texts": lambda: png(after=chunk(b"tEXt", b"a\0b") * 300_000),
        "png with many chunks": lambda: png(before=chunk(b"prIv", b"") * 600_000),
        "png with empty data chunks": lambda: png(before=chunk(b"IDAT", b"") * 600_000),
        "png with crowded exif": lambda: png(before=chunk(b"eXIf", exif())),
        "png with exif as text": lambda: png(before=chunk(b"tEXt", b"exif\0" + exif())),
        "png of many frames": lambda: png(before=counted + frame, after=frame * 100_000),
        "png with more data than pixels": lambda: png(data=bytes(50_000_000)),
        "png of 16 bits": lambda: png(SIDE, SIDE, depth=16, colour=6, data=bytes(SIDE * (8 * SIDE + 1))),
        "interlaced png": lambda: png(SIDE, SIDE, colour=6, interlaced=1, data=bytes(4 * SIDE * SIDE + 2 * SIDE)),
    }.items()


def tiff(*entries, data=b"", following=0):
    """A TIFF of one directory; entries are (tag, type, number of values, value)."""
    body = b"".join(struct.pack("<HHLL", *entry) for entry in entries)
    directory = struct.pack("<H", len(entries)) + body + struct.pack("<L", following)
    return b"II*\0\x08\0\0\0" + directory + data


def tiff_bombs():
    size = [(256, 4, 1, 9), (257, 4, 1, 9), (258, 3, 1, 8), (259, 3, 1, 1), (262, 3, 1, 1)]
    strip = [(273, 4, 1, 200), (277, 3, 1, 1), (278, 4, 1, 9), (279, 4, 1, 81)]
    huge = [(256, 4, 1, 2**31), (257, 4, 1, 2**31), *size[2:], *strip]
    crowded = [(40_000 + i, 1, 2_000_000, 8) for i in range(20_000)]

    def strips(count):
        table = struct.pack("<L", 8) * count
        places = [(273, 4, count, 126), (277, 3, 1, 1), (278, 4, 1, 1), (279, 4, count, 126 + len(table))]
        return tiff(size[0], (257, 4, 1, count), *size[2:], *places, data=table + struct.pack("<L", 9) * count)

    return {
        "tiff whose directory follows itself": lambda: tiff(*size, *strip, data=bytes(300), following=8),
        "tiff of 2^62 pixels": lambda: tiff(*huge, data=bytes(300)),
        "tiff of many strips": lambda: strips(900_000),
        "tiff with crowded values": lambda: tiff(*size, *strip, *crowded, data=bytes(2_000_000)),
        "tiff with a value of 4 GB": lambda: tiff(*size, *strip, (700, 1, 2**32 - 1, 8), data=bytes(300)),
        "bigtiff with a far directory": lambda: b"II+\0\x08\0\0\0" + struct.pack("<QQ", 2**63, 0),
        "tiff of deflated zeros": lambda: encoded("TIFF", Image.new("L", (SIDE, SIDE)), compression="tiff_deflate"),
    }.items()


def other_bombs():
    screen = b"GIF89a" + struct.pack("<HH", 8, 8) + b"\x80\0\0" + bytes(6)
    data = b"\x02\x02\x44\x01\0"
    picture = b"," + struct.pack("<HHHHB", 0, 0, 8, 8, 0) + data
    far = b"," + struct.pack("<HHHHB", 65_000, 65_000, 500, 500, 0) + data
    canvas = b"VP8X" + struct.pack("<L", 10) + bytes(4) + b"\xff" * 6
    return {
        "gif of many frames": lambda: screen + picture * 300_000 + b";",
        "gif of a long comment": lambda: screen + b"!\xfe" + (b"\xff" + bytes(255)) * 30_000 + b"\0" + picture + b";",
        "gif of tiny blocks": lambda: screen + picture[:-4] + b"\x01\x44" * 2_000_000 + b"\0;",
        "gif of 4,295 megapixels": lambda: b"GIF89a" + b"\xff" * 4 + b"\0\0\0" + picture + b";",
        "gif with a frame far outside": lambda: screen + far + b";",
        "webp of many frames": lambda: animated_webp(50_000),
        "webp of a huge canvas": lambda: riff(canvas + encoded("WEBP")[12:]),
        "webp with crowded exif": lambda: webp_with_exif(crowded_exif(60_000, 3_000_000)),
        "webp of 25 megapixels": lambda: encoded("WEBP", Image.new("RGBA", (SIDE, SIDE)), lossless=True, method=0),
        "bmp of gaps": lambda: bmp(7900, 7900, 8, 1, b"\1\0\0\0" * 6000),
        "bmp of pairs": lambda: bmp(7900, 7900, 4, 2, b"\xff\0" * 250_000),
        "bmp of many lines": lambda: bmp(3900, 3900, 8, 1, b"\1\0\0\0" * 3900),
        "bmp of huge size": lambda: bmp(2**30, 2**30, 24, 0, b""),
        "bmp of negative size": lambda: bmp(-9, -(2**31), 24, 0, bytes(300)),
        "bmp of two billion colours": lambda: bmp(9, 9, 8, 0, bytes(300), colours=2**31),
    }.items()


def riff(body):
    """A WebP file."""
    return b"RIFF" + struct.pack("<L", len(body) + 4) + b"WEBP" + body


def webp_with_exif(exif):
    """A small WebP with this EXIF."""
    head = b"VP8X" + struct.pack("<L", 10) + b"\x08\0\0\0" + b"\x2f\0\0" + b"\x23\0\0"
    return riff(head + encoded("WEBP")[12:] + b"EXIF" + struct.pack("<L", len(exif)) + exif + bytes(len(exif) % 2))


def animated_webp(frames):
    """A WebP that repeats one small frame."""
    frame = encoded("WEBP", Image.new("RGB", (8, 8)), lossless=True)[12:]
    head = b"VP8X" + struct.pack("<L", 10) + b"\x02\0\0\0" + b"\x07\0\0" * 2
    body = bytes(6) + b"\x07\0\0" * 2 + b"\x0a\0\0\0" + frame
    moving = b"ANMF" + struct.pack("<L", len(body)) + body + bytes(len(body) % 2)
    return riff(head + b"ANIM" + struct.pack("<L", 6) + bytes(6) + moving * frames)


def bmp(width, height, bits, compression, body, colours=0):
    """A BMP with an empty palette."""
    palette = bytes(4 << bits) if bits <= 8 else b""
    head = struct.pack("<LllHHLLllLL", 40, width, height, 1, bits, compression, len(body), 0, 0, colours, 0)
    return b"BM" + struct.pack("<LHHL", 54 + len(palette) + len(body), 0, 0, 54 + len(palette)) + head + palette + body
