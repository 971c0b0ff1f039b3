import shutil

import pytest
from hypothesis import settings

from whymask.methods import STAGES

# Shared machines are noisy and the first example may import scikit-learn: no deadline. Same examples every run.
settings.register_profile("suite", deadline=None, derandomize=True)
settings.load_profile("suite")


@pytest.fixture(scope="session")
def chromium():
    """The path of a real browser."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.skip("there is no chromium: make browser installs it")
    return found


@pytest.fixture(scope="module")
def browser(chromium):
    """One browser for the tests of a file. (Its event loop is ended with it: other tests may run their own.)"""
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def tab(browser):
    """A fresh tab; an error in its scripts fails the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 860})
    context.set_default_timeout(20_000)
    page = context.new_page()
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: message.type == "error" and errors.append(message.text))
    yield page
    context.close()
    assert [text for text in errors if "Failed to load resource" not in text] == []  # those are answers such as 400


@pytest.fixture
def stages(monkeypatch):
    """The registry of searches; what a test adds to it is gone afterwards."""
    monkeypatch.setattr(STAGES, "_things", dict(STAGES))
    return STAGES
