"""The viewer in a notebook: a report in its own frame, over a picture that remains if scripts are disabled."""

from base64 import b64encode
from io import BytesIO

from PIL import Image

from whymask.results import Explanation
from whymask.utils.text import displayed
from whymask.views.report import report

FRAME = """\
<div style="position: relative; min-height: {height}px">
<img src="data:image/jpeg;base64,{picture}" alt="{title}" style="max-width: 100%">
<iframe title="{title}" sandbox="allow-scripts" srcdoc='{page}' \
style="position: absolute; inset: 0; width: 100%; height: {height}px; border: 0"></iframe>
</div>"""
HEIGHT = 740  # pixels: the first screen of a report about a mask


def framed(result: Explanation, figure: bytes) -> str:
    """HTML that shows a result's report, and a small copy of its figure, a PNG, where frames or scripts are taken out.

    GitHub and notebooks that are not trusted remove the frame. Where only scripts are off, the frame is transparent. It
    may run scripts and nothing else: it has no access to the notebook, and its own policy forbids every request.
    """
    page = report([result], [str(result.provenance["method"])], over_picture=True)
    title = displayed(f"Evidence for {result.title}")
    for letter, escaped in (("&", "&amp;"), ("'", "&#39;")):  # double quotes, which are many, may stay
        page = page.replace(letter, escaped)
    for letter, escaped in (("&", "&amp;"), ('"', "&quot;"), ("<", "&lt;")):
        title = title.replace(letter, escaped)
    copy = BytesIO()
    Image.open(BytesIO(figure)).convert("RGB").save(copy, format="JPEG", quality=85)
    return FRAME.format(height=HEIGHT, picture=b64encode(copy.getvalue()).decode(), title=title, page=page)


Explanation.framed = framed  # results cannot import their views
