"""The documentation site builds without a warning: every link leads somewhere, every public name is documented."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

pytest.importorskip("mkdocs", reason="mkdocs is not installed: whymask[docs]")

import whymask

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1", "DOCS_EXECUTE": "false"}
    built = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return folder


class Targets(HTMLParser):
    """Everything that a page loads or embeds, links left out: those are checked by the build."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        self.found += [value for name, value in attrs if name == "src" and value]


def test_every_page_of_the_docs_is_there(site):
    for page in (ROOT / "docs").rglob("*.md"):
        name = page.relative_to(ROOT / "docs").with_suffix("")
        folder = name.parent if name.name == "README" else name
        assert (site / folder / "index.html").is_file(), folder


def test_pictures_and_frames_are_there_and_nothing_is_loaded_from_elsewhere(site):
    pages = [page for page in site.rglob("index.html") if "notebooks" not in page.parts]
    for page in pages:
        targets = Targets()
        targets.feed(page.read_text())
        for target in targets.found:
            assert not re.match(r"(https?:)?//", target), (page, target)
            if not target.startswith("data:"):
                assert (page.parent / target.partition("?")[0]).exists(), (page, target)


def test_where_the_repository_shows_a_picture_of_a_report_the_site_shows_the_report(site):
    comments = {
        page.relative_to(ROOT / "docs").with_suffix(""): re.findall(r"<!-- report: (.+) -->", page.read_text())
        for page in (ROOT / "docs").rglob("*.md")
    }
    assert {"ranking", "example-sentence"} <= {name for names in comments.values() for name in names}
    for page, names in comments.items():
        html = (site / page / "index.html").read_text() if names else ""
        framed = [(site / page / src).resolve() for src in re.findall(r'<iframe src="([^"]+)"', html)]
        assert framed == [(site / "reports" / f"{name}.html").resolve() for name in names]
        assert all(file.is_file() for file in framed)
        assert not names or "images/report" not in html
        assert "<!-- report" not in html


def test_a_visitor_can_move_the_slider(site, tab):
    tab.goto((site / "first" / "index.html").as_uri())
    tab.locator("iframe").scroll_into_view_if_needed()  # it is loaded when it comes into view
    report = tab.frame_locator("iframe")
    slider = report.get_by_role("slider")
    before = int(slider.input_value())
    slider.press("ArrowRight")
    report.get_by_text(f"{before + 1} of 64 regions", exact=True).wait_for()


def test_the_reference_documents_every_public_name(site):
    page = (site / "api" / "index.html").read_text()
    for name in dir(whymask):
        if not name.startswith("_") and name != "METHOD":
            assert re.search(rf'id="whymask\.(\w+\.)*{name}"', page), name


def test_links_of_the_repository_become_links_of_the_site(site):
    start = (site / "index.html").read_text()
    assert 'href="first/"' in start
    assert ".md" not in re.sub(r"<code>.*?</code>", "", start)
