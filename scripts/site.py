"""Hooks of mkdocs.yml: pages from the root of the repository, links out of docs/, and live reports.

The same Markdown is read in the repository and on the site. In the repository, links lead to files that the site does
not have; here they lead to the page made of that file, or are shown as plain text. A comment `<!-- report: NAME -->`
and the picture below it stand for a report: the repository shows the picture, the site the report itself.
"""

import posixpath
import re
from html import escape
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.utils import get_relative_url

from whymask.results.base import Explanation
from whymask.serve.examples import FOLDER as EXAMPLES
from whymask.views.report import report

ROOT = Path(__file__).parents[1]
PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
SOURCE = re.compile(r'(?<=src=")[^"]+')
REPORT = re.compile(r"<!-- report: ([\w-]+) -->\n!\[([^\]]*)\]\([^)]*\)")

SAVED = ROOT / "docs" / "reports"
# The column of text is narrower than a report with its panels side by side, so the report is shown smaller.
FRAME = "zoom: 0.75; width: 100%; height: 48rem; border: 1px solid #8884"


def on_files(files: Files, config: Any) -> Files:
    """Add the pages of the repository's root."""
    for source, name in PAGES.items():
        text = links((ROOT / source).read_text(encoding="utf-8"), source, name)
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Put live reports into a page, and rewrite the links of a page of docs/."""
    name = page.file.src_uri
    markdown = REPORT.sub(lambda match: frame(*match.groups(), page.file, config, files), markdown)
    return markdown if name in PAGES.values() else links(markdown, f"docs/{name}", name)


def frame(result: str, about: str, page: File, config: Any, files: Files) -> str:
    """A frame with the report of a saved result, of docs/reports or an example of the served page."""
    name = f"reports/{result}.html"
    file = files.get_file_from_path(name)
    if file is None:
        saved = next(path for path in (SAVED / f"{result}.npz", EXAMPLES / f"{result}.npz") if path.is_file())
        file = File.generated(
            config, name, content=report([Explanation.load(saved)], [result.removeprefix("example-")])
        )
        files.append(file)
    url = get_relative_url(file.url, page.url)
    return (
        f'<iframe src="{url}" title="{escape(about)}" loading="lazy" style="{FRAME}"></iframe>\n\n'
        f'<a href="{url}" target="_blank">Open this report in a new tab.</a>'
    )


def links(text: str, source: str, name: str) -> str:
    """The Markdown of the file `source` of the repository, as the page `name` of the site."""

    def moved(target: str) -> str | None:
        if re.match(r"\w+:|#", target):
            return target
        path, mark, anchor = target.partition("#")
        file = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        here = PAGES.get(file) or (file.removeprefix("docs/") if file.startswith("docs/") else None)
        if here is None or (ROOT / file).is_dir():
            return None
        return posixpath.relpath(here, posixpath.dirname(name) or ".") + mark + anchor

    def link(match: re.Match[str]) -> str:
        image, label, target = match.groups()
        there = moved(target)
        return label if there is None else f"{image}[{link_within(label)}]({there})"

    def link_within(label: str) -> str:
        return LINK.sub(link, label)

    return SOURCE.sub(lambda match: moved(match[0]) or match[0], LINK.sub(link, text))
