"""Every hostile image file ends in an image or in one sentence, soon."""

import time

from whymask import WhymaskError
from whymask.images.imaging import load_image

from hostile.images import COUNT, files
from hostile.sample import FULL, sample


def ending(content):
    """What reading a file ends in: "" where that is an RGB image or a sentence."""
    started = time.process_time()
    try:
        wrong = "" if load_image(content).mode == "RGB" else "not RGB"
    except WhymaskError as error:
        wrong = "" if str(error).endswith(".") and "\n" not in str(error) else repr(error)
    except Exception as error:
        wrong = repr(error)
    return wrong or ("" if time.process_time() - started < 5 else "too late")


def test_an_image_or_a_sentence():
    endings = {name: ending(make()) for name, make in sample(files())}
    assert len(endings) == (COUNT if FULL else COUNT // 5)
    assert {name: wrong for name, wrong in endings.items() if wrong} == {}
