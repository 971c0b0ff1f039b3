"""Hooks of mkdocs.yml: pages from the root of the repository, links out of docs/, and live reports.

The same Markdown is read in the repository and on the site. In the repository, links lead to files that the site does
not have; here they lead to the page made of that file, or are shown as plain text.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
SOURCE = re.compile(r'(?<=src=")[^"]+')


def on_files(files: Files, config: Any) -> Files:
    """Add the pages of the repository's root."""
    for source, name in PAGES.items():
        text = links((ROOT / source).read_text(encoding="utf-8"), source, name)
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Rewrite the links of a page of docs/."""
    name = page.file.src_uri
    return markdown if name in PAGES.values() else links(markdown, f"docs/{name}", name)


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
