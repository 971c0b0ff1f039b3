import io
import struct
import sys
import zlib

import numpy as np
import pytest
from PIL import Image, ImageFile, ImageOps, PngImagePlugin, TiffImagePlugin, features

from whymask import WhymaskError
from whymask.errors import ImageError
from whymask.images.imaging import CentreCrop, load_image, see_labels

from hostile.images import bombs, segment

HOSTILE = dict(bombs())
GRADIENT = np.dstack([np.tile(np.arange(64, dtype=np.uint8) * 4, (48, 1))] * 3)


def encoded(image, kind="PNG", **options):
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def test_sources_agree(tmp_path):
    path = tmp_path / "a.png"
    Image.fromarray(GRADIENT).save(path)
    for source in (path, str(path), path.read_bytes(), Image.open(path), GRADIENT, GRADIENT / np.float32(255)):
        np.testing.assert_array_equal(np.asarray(load_image(source)), GRADIENT)


def test_modes():
    rgb = Image.fromarray(GRADIENT)
    for mode in ("L", "1", "P", "CMYK", "YCbCr", "LA", "RGBA", "PA"):
        assert (
            load_image(rgb.convert("RGB").convert(mode) if mode != "PA" else rgb.convert("P").convert("PA")).mode
            == "RGB"
        )
    assert load_image(encoded(rgb.convert("CMYK"), "JPEG")).mode == "RGB"
    assert load_image(encoded(rgb.convert("P"), "GIF")).size == (64, 48)


def test_transparency_is_shown_on_white():
    clear = Image.new("RGBA", (4, 4), (10, 20, 30, 0))
    assert load_image(clear).getpixel((0, 0)) == (255, 255, 255)
    half = Image.new("RGBA", (4, 4), (0, 100, 200, 128))
    assert load_image(half).getpixel((0, 0)) == pytest.approx((127, 177, 227), abs=1)
    palette = Image.new("P", (2, 2), 0)
    palette.putpalette([200, 0, 0] + [0] * 765)
    assert load_image(encoded(palette, transparency=0)).getpixel((0, 0)) == (255, 255, 255)


def test_sixteen_bits_are_scaled_not_cut():
    grey = np.array([[0, 257, 32896, 65535]], dtype=np.uint16)
    expected = [[0, 1, 128, 255]]
    for source in (grey, encoded(Image.fromarray(grey)), encoded(Image.fromarray(grey), "TIFF")):
        np.testing.assert_array_equal(np.asarray(load_image(source))[..., 0], expected)


def test_float_and_32_bit_images_are_read_or_refused():
    ramp = np.linspace(0, 1, 64, dtype=np.float32).reshape(8, 8)
    expected = np.rint(ramp * 255)
    for source in (Image.fromarray(ramp), encoded(Image.fromarray(ramp), "TIFF")):
        np.testing.assert_array_equal(np.asarray(load_image(source))[..., 0], expected)
    bytes_in_ints = Image.fromarray(expected.astype(np.int32))
    np.testing.assert_array_equal(np.asarray(load_image(bytes_in_ints))[..., 0], expected)
    with pytest.raises(WhymaskError, match=r"\[0, 1\]"):
        load_image(Image.fromarray(ramp * 300))
    with pytest.raises(WhymaskError, match="0 to 65535"):
        load_image(Image.fromarray(np.array([[-5, 70000]], dtype=np.int32)))


@pytest.mark.parametrize("kind", ["WEBP", "BMP", "TIFF", "GIF", "PNG", "JPEG"])
def test_formats(kind):
    assert load_image(encoded(Image.fromarray(GRADIENT), kind)).size == (64, 48)


@pytest.mark.skipif(not features.check("avif"), reason="this Pillow does not decode AVIF")
def test_avif():
    whole = load_image(encoded(Image.fromarray(GRADIENT), "AVIF", quality=100))
    assert np.abs(np.asarray(whole).astype(int) - GRADIENT).max() <= 4
    exif = Image.Exif()
    exif[0x0112] = 6
    assert load_image(encoded(Image.fromarray(GRADIENT), "AVIF", exif=exif)).size == (48, 64)


def test_heic():
    pillow_heif = pytest.importorskip("pillow_heif")
    out = io.BytesIO()
    pillow_heif.from_pillow(Image.fromarray(GRADIENT)).save(out, quality=100)
    assert np.abs(np.asarray(load_image(out.getvalue())).astype(int) - GRADIENT).max() <= 6


def test_what_is_missing_for_a_format_is_named(monkeypatch):
    heic = b"\0\0\0\x18ftypheic" + bytes(100)
    monkeypatch.setitem(sys.modules, "pillow_heif", None)  # cannot be imported
    monkeypatch.delitem(Image.OPEN, "HEIF", raising=False)
    with pytest.raises(ImageError, match="can be read without pillow-heif"):
        load_image(heic)


@pytest.mark.parametrize("address", ["https://x.y/z.jpg", "HTTP://x.y/z.jpg", "data:image/png;base64,AAAA"])
def test_an_address_is_no_file(address):
    with pytest.raises(ImageError, match="is an address, not a file: download the image"):
        load_image(address)


def test_exif_rotation_is_applied():
    exif = Image.Exif()
    exif[0x0112] = 6  # turn clockwise by 90 degrees to show: the dark left side becomes the top
    image = load_image(encoded(Image.fromarray(GRADIENT), "JPEG", exif=exif, quality=95))
    assert image.size == (48, 64)
    rows = np.asarray(image).mean(axis=(1, 2))
    assert rows[0] < 10
    assert (np.diff(rows) > 0).all()


def bomb(width=20_000, height=10_000):
    """A PNG that only announces its size."""

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", b"") + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"no image at all", "is not an image"),
        (encoded(Image.fromarray(GRADIENT))[:60], "broken"),
        (encoded(Image.fromarray(GRADIENT), "JPEG")[:300], "broken"),
        (bomb(), "more than 64 megapixels"),
        (bomb(9_000, 9_000), "more than 64 megapixels"),
    ],
)
def test_bad_files_are_one_clear_sentence(tmp_path, content, words):
    path = tmp_path / "x.png"
    path.write_bytes(content)
    for source in (path, content):
        with pytest.raises(WhymaskError, match=words) as error:
            load_image(source)
        assert "\n" not in str(error.value)


def test_other_bad_sources(tmp_path):
    with pytest.raises(WhymaskError, match="is a directory"):
        load_image(tmp_path)
    with pytest.raises(WhymaskError, match="there is no file"):
        load_image(tmp_path / "missing.png")
    for array in (np.zeros((3, 4, 5), np.uint8), np.zeros(4, np.uint8), np.zeros((0, 4), np.uint8)):
        with pytest.raises(WhymaskError, match="shape"):
            load_image(array)
    for bad in (2.0, -0.5, np.nan):
        with pytest.raises(WhymaskError, match=r"\[0, 1\]"):
            load_image(np.full((4, 4), bad))
    with pytest.raises(WhymaskError, match="not list"):
        load_image([1, 2, 3])
    with pytest.raises(WhymaskError, match="cannot be read"):
        load_image("x" * 300)
    with pytest.raises(WhymaskError, match="broken"):
        load_image(Image.open(io.BytesIO(encoded(Image.fromarray(GRADIENT), "JPEG")[:-100])))
    with pytest.raises(WhymaskError, match="int64"):
        load_image(np.zeros((4, 4), int))


def test_own_geometry_is_the_central_square():
    image = Image.fromarray(GRADIENT)  # 64 x 48
    canvas, box = CentreCrop(32, share=0.5).place(image, "own")
    assert canvas.shape == (32, 32, 3)
    np.testing.assert_allclose(box, (20 / 64, 12 / 48, 44 / 64, 36 / 48))
    assert 76 <= canvas[0, 0, 0] <= 84  # the gradient is 4 per pixel and starts at pixel 20
    same = image.crop((20, 12, 44, 36)).resize((32, 32), Image.Resampling.BICUBIC)
    assert np.abs(canvas.astype(int) - np.asarray(same)).max() <= 2  # the box may look past its border, a crop cannot


def test_squash_and_none():
    image = Image.fromarray(GRADIENT)
    canvas, box = CentreCrop(32).place(image, "squash")
    assert box == (0, 0, 1, 1)
    np.testing.assert_array_equal(canvas, np.asarray(image.resize((32, 32), Image.Resampling.BICUBIC)))
    again, _ = CentreCrop(32).place(Image.fromarray(canvas), "none")
    np.testing.assert_array_equal(again, canvas)
    with pytest.raises(WhymaskError, match="grid is 32 x 32"):
        CentreCrop(32).place(image, "none")
    with pytest.raises(WhymaskError, match="'own', 'squash'"):
        CentreCrop(32).place(image, "stretch")


def test_labels_follow_the_image_through_the_crop():
    labels = np.arange(48)[:, None] // 12 * 10 + np.arange(64) // 16
    seen = see_labels(labels, (0.25, 0.25, 0.75, 0.75), (24, 32))
    assert set(np.unique(seen)) == {11, 12, 21, 22}
    np.testing.assert_array_equal(see_labels(labels, (0, 0, 1, 1), labels.shape), labels)
    columns = np.arange(10)[None].repeat(4, axis=0)
    assert see_labels(columns, (0, 0, 1, 1), (4, 5))[0].tolist() == [1, 3, 5, 7, 9]  # the middle of each cell


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize("orientation", [2, 3, 4, 5, 6, 7, 8])
def test_every_orientation_is_applied_as_by_pillow(kind, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    content = encoded(Image.fromarray(GRADIENT[:, :40]), kind, exif=exif)
    expected = ImageOps.exif_transpose(Image.open(io.BytesIO(content))).convert("RGB")
    np.testing.assert_array_equal(np.asarray(load_image(content)), np.asarray(expected))


def xmp_jpeg(xmp):
    jpeg = encoded(Image.fromarray(GRADIENT[:, :40]), "JPEG")
    return jpeg[:2] + segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0" + xmp) + jpeg[2:]


def texts_png(*texts):
    info = PngImagePlugin.PngInfo()
    for name, text in texts:
        (info.add_itxt if name.startswith("XML") else info.add_text)(name, text, zip=not name.startswith("XML"))
    return encoded(Image.fromarray(GRADIENT[:, :40]), "PNG", pnginfo=info)


def exif_bytes(kind, order=">"):
    """EXIF whose orientation, 6, is a SHORT (3) or a LONG (4)."""
    value = struct.pack(f"{order}HH", 6, 0) if kind == 3 else struct.pack(f"{order}L", 6)
    entry = struct.pack(f"{order}HHL", 0x0112, kind, 1) + value
    return (b"MM\0*" if order == ">" else b"II*\0") + struct.pack(f"{order}LH", 8, 1) + entry + bytes(4)


def test_orientation_is_found_wherever_it_may_be():
    xmp = b'<rdf:Description tiff:Orientation="6"/>'
    raw = "\nexif\n      26\n" + (b"Exif\0\0" + exif_bytes(3)).hex() + "\n"
    picture = Image.fromarray(GRADIENT[:, :40])
    files = [
        xmp_jpeg(xmp),
        xmp_jpeg(b"<tiff:Orientation>8</tiff:Orientation>"),
        texts_png(("XML:com.adobe.xmp", xmp.decode())),
        texts_png(("Raw profile type exif", raw)),
        encoded(picture, "WEBP", lossless=True, xmp=xmp),
        *(encoded(picture, "JPEG", exif=b"Exif\0\0" + exif_bytes(kind, order)) for kind in (3, 4) for order in "<>"),
    ]
    for content in files:
        turn = Image.Transpose.ROTATE_90 if b">8<" in content else Image.Transpose.ROTATE_270
        expected = Image.open(io.BytesIO(content)).convert("RGB").transpose(turn)  # Pillow finds it in newer versions
        np.testing.assert_array_equal(np.asarray(load_image(content)), np.asarray(expected))


def test_what_follows_a_jpeg_without_an_end_is_left_out():
    jpeg = encoded(Image.fromarray(GRADIENT), "JPEG")
    cut = load_image(jpeg[:-2] + b"\xff\xe1\xff\xffmore")
    np.testing.assert_array_equal(np.asarray(cut), np.asarray(load_image(jpeg)))


@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"subsampling": 0, "restart_marker_blocks": 2}])
@pytest.mark.parametrize("mode", ["L", "RGB", "CMYK"])
def test_a_jpeg_is_decoded_as_by_pillow(mode, options):
    noise = np.random.default_rng(0).integers(0, 256, (50, 70, 3)).astype(np.uint8)
    image = Image.fromarray(noise).convert(mode)
    content = encoded(image, "JPEG", icc_profile=b"p" * 100_000, comment=b"\xff\xda" * 200, **options)
    expected = Image.open(io.BytesIO(content)).convert("RGB")
    np.testing.assert_array_equal(np.asarray(load_image(content)), np.asarray(expected))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("jpeg of 1,500 scans", "40 or more scans of 25.2 megapixels"),
        ("narrow jpeg of many scans", "101 or more scans"),
        ("baseline jpeg of many scans", "40 or more scans"),
        ("jpeg of restarted scans", "101 or more scans"),
        ("arithmetic jpeg of 30 scans", "arithmetic coding"),
        ("jpeg of many comments", "more than 10000 segments"),
        ("tiff of many strips", "900000 strips"),
        ("tiff with crowded values", "larger than the file"),
        ("bmp of gaps", "run-length"),
    ],
)
def test_what_takes_too_much_work_is_not_decoded(monkeypatch, name, words):
    content = HOSTILE[name]()
    monkeypatch.setattr(ImageFile.ImageFile, "load", lambda self: pytest.fail("it was decoded"))
    with pytest.raises(WhymaskError, match=words):
        load_image(content)


def test_metadata_never_reaches_the_decoder(monkeypatch):
    """Profiles that inflate to gigabytes, EXIF whose entries share megabytes: nothing of it is read."""
    monkeypatch.setattr(TiffImagePlugin.ImageFileDirectory_v2, "load", lambda *_: pytest.fail("EXIF was read"))
    monkeypatch.setattr(PngImagePlugin, "_safe_zlib_decompress", lambda data: pytest.fail("a profile was inflated"))
    for name in ("jpeg with exif in parts", "jpeg with crowded mpf", "png with many profiles", "png with crowded exif",
                 "webp with crowded exif"):  # fmt: skip
        load_image(HOSTILE[name]())


@pytest.mark.parametrize("name", ["jpeg with many fill bytes", "jpeg with many fill bytes in its scan"])
def test_a_file_is_searched_for_markers_once(name):
    """Not once from every byte of a run, which would take days."""
    try:
        load_image(HOSTILE[name]())
    except WhymaskError as error:
        assert "broken" in str(error)  # noqa: PT017 - decoders differ in what they accept
