"""A report: one self-contained HTML file with the same viewer as the served page."""

import json
import re
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from html import escape
from importlib.resources import files
from string import Template

from whymask.results import Explanation
from whymask.utils.text import displayed
from whymask.views.document import document

STATIC = files("whymask.views") / "static"
VIEWER = (
    "image.js", "curves.js", "parts.js", "verdict.js", "glossary.js", "charts.js", "words.js", "scored.js", "layers.js",
    "regions.js", "rows.js", "what-if.js", "compare.js", "viewer.js",
)  # fmt: skip
"""The viewer's scripts, in the order they are loaded."""

PAGE = Template("""\
<!doctype html>
<html lang="en"$kind>
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; $policy">
<link rel="icon" href="data:,">
<title>$title</title>
<style>$style</style>
</head>
<body>
$body
</body>
</html>
""")
VIEW = Template("""\
<main id="viewer"></main>
<noscript>This report is drawn by JavaScript, which is switched off.</noscript>
<script type="application/json" id="document">$data</script>
<script>$script</script>""")


def report(explanations: Sequence[Explanation], names: Sequence[str], *, over_picture: bool = False) -> str:
    """The explanations, one tab each, as one HTML page; its content security policy forbids every request.

    Args:
        over_picture: whether it lies over a picture, which is seen where no script runs.
    """
    boot = (
        "whymask.mount(document.getElementById('viewer'), JSON.parse(document.getElementById('document').textContent));"
    )
    script = "\n".join([*(compact(asset(name)) for name in VIEWER), boot])
    title = " \u00b7 ".join(dict.fromkeys(displayed(one.title) for one in explanations))
    # In a script element only "<" could end the data early.
    data = json.dumps(document(explanations, names), allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    body = VIEW.substitute(data=data, script=script)
    kind = "wm-clear" if over_picture else ""
    return page(f"{title}: which regions are enough?", compact(asset("viewer.css")), body, script, kind)


def page(title: str, style: str, body: str, script: str = "", kind: str = "") -> str:
    """A page whose content security policy allows this style, the given script of its body, and nothing else."""
    policy = f"style-src {_digest(style)}" + (f"; script-src {_digest(script)}" if script else "")
    shown = f' class="{kind}"' if kind else ""
    return PAGE.substitute(title=escape(title), policy=policy, style=style, body=body, kind=shown)


def asset(name: str) -> str:
    """A file of the viewer."""
    return (STATIC / name).read_text(encoding="utf-8")


def compact(source: str) -> str:
    r"""A script or a style without indentation, empty lines and comments on separate lines.

    >>> compact("/** One. */\nconst one = 1;\n\n  // More.\n  let two;")
    'const one = 1;\nlet two;'
    """
    bare = re.sub(r"^\s*(?://.*|/\*(?s:.*?)\*/\s*)$", "", source, flags=re.MULTILINE)
    return "\n".join(filter(None, map(str.strip, bare.splitlines())))


def _digest(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
