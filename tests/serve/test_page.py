"""The served page in a real browser."""

import time
from dataclasses import replace
from io import BytesIO

import pytest
from PIL import Image

import whymask
from whymask.images.described import described
from whymask.methods import OF_SIZE
from whymask.models.base import Target
from whymask.results.base import Explanation
from whymask.serve.offer import RANKING

from serve.pages import GONE, SLOW, ask, done, expert, forwards, problem, question, under_way
from serve.served import Slow, photo, serving, until
from views.spoken import TEXT, spoken


@pytest.fixture(scope="module")
def slow():
    return Slow()


@pytest.fixture(scope="module")
def server(tmp_path_factory, slow):
    models, abilities = {"slow": slow.model, "plain": slow.model}, {"plain": ()}
    with serving(tmp_path_factory.mktemp("served"), models, abilities=abilities, waiting=2) as (url, jobs):
        yield url, jobs


@pytest.fixture
def page(tab, server):
    tab.goto(server[0])
    tab.locator("#ask").wait_for()
    return tab


def test_upload_progress_result_download(page, server, slow, tmp_path):
    slow.seconds = 0.03
    ask(page, photo(), method="greedy")
    under_way(page, 272)
    first = forwards(page)
    page.wait_for_timeout(300)
    assert page.locator("#viewer[data-ready]").count() or forwards(page) > first  # it goes on
    page.locator("#viewer[data-ready]").wait_for()
    heading = page.get_by_role("heading", name="the score")
    assert heading.is_visible()
    assert heading.evaluate("(h) => h === document.activeElement")  # who listens is told where the page is now
    assert page.title() == "the score · whymask"
    assert page.locator("#spoken").text_content() == "The result is shown."
    page.get_by_role("slider").fill("16")
    assert page.locator(".wm-count").inner_text() == "16 of 16 regions"
    saved = {}
    for text, name in (("report", "report.html"), ("figure", "figure.png"), ("result", "result.npz")):
        with page.expect_download() as download:
            page.get_by_role("link", name=f"Save the {text}").click()
        assert download.value.suggested_filename == f"whymask-{name}"
        saved[name] = tmp_path / name
        download.value.save_as(saved[name])
    assert Explanation.load(saved["result.npz"]).n == 16
    assert saved["figure.png"].read_bytes().startswith(b"\x89PNG")
    page.goto(saved["report.html"].as_uri())  # the report works by itself
    page.wait_for_selector("[data-ready]")


def test_history(page, slow):
    slow.seconds = 0
    ask(page, photo(seed=5), k="3")
    page.locator("#viewer[data-ready]").wait_for()
    page.get_by_role("link", name="New image").click()
    page.locator("#ask").wait_for()
    assert page.locator("#past a").first.inner_text().split("\n")[-2] == f"{OF_SIZE}, function"
    page.locator("#past a").first.click()
    page.locator("#viewer").wait_for()
    assert "3 of 16 regions" in page.locator(".wm-head").inner_text()


def test_the_words_of_a_text(page, server, tmp_path):
    name, text = "00000000000000ab", TEXT.replace("🦊", "A")  # no font of the figure has foxes
    server[1].history.save(name, replace(spoken(), text=text))
    page.goto(f"{server[0]}/#{name}")
    page.locator("#viewer[data-ready]").wait_for()
    assert page.title() == f"{text} · whymask"
    page.get_by_role("button", name="three", exact=True).click()
    assert page.locator(".wm-card").filter(visible=True).locator("h2 bdi").inner_text() == "three"
    assert page.locator("#past a bdi").first.inner_text() == text
    for what in ("report", "figure", "result"):
        with page.expect_download() as download:
            page.get_by_role("link", name=f"Save the {what}").click()
        download.value.save_as(tmp_path / what)
    assert Explanation.load(tmp_path / "result").text == text
    server[1].history.delete(name)


def test_each_word_of_an_answer(tab, tmp_path):
    pytest.importorskip("transformers", reason="transformers is not installed: whymask[hf]")
    scene = BytesIO()
    Image.fromarray(described("test", 0).pixels).save(scene, format="PNG")
    model = whymask.load("tiny-caption")
    models = {"plain": Slow().model, "caption": lambda: model}
    with serving(tmp_path, models, abilities={"plain": (), "caption": ("question",)}) as (url, _):
        tab.goto(url)
        tab.locator("#ask").wait_for()
        check = tab.get_by_role("checkbox", name="Explain each word of the answer")
        assert not check.is_visible()
        tab.locator("[name=model]").select_option("caption")
        check.check()
        rank = tab.get_by_role("radio", name="Rank all regions")
        assert rank.is_disabled()
        assert tab.locator("[name=target]").is_disabled()
        check.uncheck()
        assert rank.is_enabled()
        check.check()
        ask(tab, scene.getvalue(), question="Describe the image.", k="4", fill="black")
        tab.locator("#viewer[data-ready]").wait_for()
        text = tab.get_by_role("group", name="The text").text_content()
        assert tab.title() == f"{text} · whymask"
        assert tab.locator(".wm-question").inner_text() == "Describe the image."
        buttons = tab.locator(".wm-word").all_inner_texts()
        assert len(buttons) > 1
        assert set(buttons) < set(text.split())
        tab.get_by_role("link", name="New image").click()
        tab.locator("[name=model]").select_option("plain")
        assert rank.is_enabled()


def test_cancel(page, server, slow):
    slow.seconds = 0.05
    ask(page, photo(), **SLOW)
    under_way(page, 4160)
    page.get_by_role("button", name="Cancel").click()
    assert problem(page) == "Cancelled."
    assert page.locator("#ask").is_visible()
    batches = slow.batches
    page.wait_for_timeout(200)
    assert slow.batches <= batches + 1
    slow.seconds = 0


def test_a_page_loaded_again_finds_its_job(page, slow):
    slow.seconds = 0.02
    ask(page, photo(), **SLOW)
    under_way(page, 4160)
    before = forwards(page)
    page.reload()
    under_way(page, 4160)
    assert forwards(page) >= before > 0
    page.get_by_role("button", name="Cancel").click()
    assert problem(page) == "Cancelled."
    slow.seconds = 0


@pytest.mark.parametrize(
    ("image", "words"),
    [
        (b"just text", "The search could not start: the image is not an image that can be read (JPEG, PNG, WEBP)."),
        (photo()[:500], "the image is broken and cannot be decoded"),
        (b"GIF89a" + b"\0" * 100, "is not an image that can be read"),
        (b"\xff" * 10_000_001, "This file is larger than 10 MB: choose a smaller one."),
        (b"", "The search could not start: the image is empty."),
    ],
    ids=["text", "truncated", "gif", "large", "empty"],
)
def test_bad_uploads_give_a_readable_message(page, image, words):
    page.set_input_files("#file", {"name": "x.jpg", "mimeType": "image/jpeg", "buffer": image})
    if len(image) <= 10_000_000:
        page.get_by_role("button", name="Explain").click()
    assert words in problem(page)


def test_mistakes_of_a_search_are_told_too(page, slow):
    slow.seconds = 0
    ask(page, photo(), k="17")
    assert page.locator("[name=k]").evaluate("(k) => k.validity.rangeOverflow")  # the browser says so itself
    page.locator("#ask").evaluate("(form) => (form.noValidate = true)")
    page.get_by_role("button", name="Explain", exact=True).click()
    message = "k must be between 1 and the number of regions, 16, not 17."
    assert problem(page) == f"The search could not start: {message}"


def test_an_address_that_is_no_job(page, server):
    page.goto(f"{server[0]}/#0123456789abcdef")
    assert problem(page) == f"{GONE} Choose an image to start again."


def test_every_control_has_a_name_and_a_phone_has_room(page):
    page.set_viewport_size({"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    expert(page)
    for name in ("Model", "Regions", "Fill of hidden regions", "Shape of the image"):
        assert page.get_by_role("combobox", name=name, exact=True).is_visible()
    for name in ("Answer to explain", "Question"):
        assert page.get_by_role("textbox", name=name, exact=True).is_visible()
    assert page.get_by_role("slider", name="They keep at least").is_visible()
    assert page.get_by_role("group", name="Method", exact=True).get_by_role("radio").first.is_checked()
    question(page, "Exactly k regions")
    for name in ("Regions kept, k", "Random seed"):
        assert page.get_by_role("spinbutton", name=name, exact=True).is_visible()
    assert page.get_by_role("combobox", name="Alternatives").is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.tagName") != "BODY"


def test_only_what_a_model_can_run_is_offered(page):
    expert(page)
    question(page, "Rank all regions")
    offered = page.locator("[name=method]")
    page.locator("[name=method][value='igos++']").check()
    everything = offered.count()
    page.locator("[name=model]").select_option("plain")
    assert page.get_by_role("textbox", name="Question").count() == 0
    assert page.locator("[name=method][value='igos++']").count() == 0
    assert page.locator("[name=method]:checked").input_value() == RANKING
    page.locator("[name=model]").select_option("slow")
    assert offered.count() == everything


def test_who_looks_elsewhere_during_a_run_is_left_there(page, server, slow):
    slow.seconds = 0.05
    ask(page, photo(seed=1), method="greedy")
    under_way(page, 272)
    job = page.url.partition("#")[2]
    page.get_by_role("link", name="New image").click()
    page.locator("#ask").wait_for()
    assert page.title() == "whymask"
    page.wait_for_function("(id) => fetch(`/api/jobs/${id}`).then((a) => a.json()).then((j) => j.state === 'done')",
                           arg=job)  # fmt: skip
    assert page.locator("#ask").is_visible()
    assert page.locator("#viewer").is_hidden()
    slow.seconds = 0


def test_a_picture_that_does_not_come_is_reported_and_the_job_goes_on(page, slow):
    slow.seconds = 0.02
    page.route("**/picture", lambda route: route.fulfill(status=500, body="{}"))
    ask(page, photo(seed=2), method="greedy")
    assert problem(page) == "Trying again: the server answered with status 500."
    page.unroute("**/picture")
    page.locator("#viewer[data-ready]").wait_for()
    slow.seconds = 0


def test_a_lost_connection_is_shown_until_it_is_back(page, slow):
    slow.seconds = 0.02
    ask(page, photo(seed=3), **SLOW)
    under_way(page, 4160)
    page.route("**/api/jobs/*", lambda route: route.abort())
    assert problem(page).startswith("The server cannot be reached. If it was stopped, start it again")
    page.unroute("**/api/jobs/*")
    page.locator("#problem").wait_for(state="hidden")
    under_way(page, 4160)
    page.get_by_role("button", name="Cancel").click()
    assert problem(page) == "Cancelled."
    slow.seconds = 0


def test_a_file_dropped_beside_the_field_is_taken(page):
    taken = page.evaluate("""() => {
      const dropped = new DataTransfer();
      dropped.items.add(new File(["x"], "beside.png", { type: "image/png" }));
      const event = new DragEvent("drop", { dataTransfer: dropped, bubbles: true, cancelable: true });
      document.querySelector("header").dispatchEvent(event);
      return event.defaultPrevented;
    }""")
    assert taken  # else the browser would leave the page for the file
    assert page.locator("#preview").get_attribute("alt") == "The chosen image, beside.png"


def test_seven_tabs_watch_a_job_and_any_of_them_cancels_it(page, slow):
    """A browser opens six connections to a server: a stream for every tab would take them all."""
    slow.seconds = 0.1
    ask(page, photo(seed=4), **SLOW)
    under_way(page, 4160)
    others = [page.context.new_page() for _ in range(6)]
    for other in others:
        other.goto(page.url)
        under_way(other, 4160)
    page.get_by_role("button", name="Cancel").click()
    for tab in (page, *others):
        assert problem(tab) == "Cancelled."
    slow.seconds = 0


def test_a_hidden_page_says_so_and_is_up_to_date_when_it_is_shown(page, server, slow):
    slow.seconds = 0.2
    ask(page, photo(seed=6), method="greedy")
    page.get_by_role("heading", name="Searching").wait_for()
    with page.expect_request("**/api/jobs/*?hidden"):
        hide(page, True)
    job = server[1].jobs[page.url.partition("#")[2]]
    until(lambda: job.seen > time.monotonic() + 30)  # the server will wait for the next request of a hidden page
    slow.seconds = 0
    until(lambda: job.over)
    hide(page, False)
    page.locator("#viewer[data-ready]").wait_for()


def hide(page, hidden):
    """What a browser does when another tab is shown."""
    page.evaluate("""(hidden) => {
      Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    }""", hidden)  # fmt: skip


def test_a_job_that_is_gone_leads_back_to_the_form(page, server, slow):
    """After a restart of the server, with the image still chosen."""
    slow.seconds = 0.02
    ask(page, photo(seed=7), **SLOW)
    under_way(page, 4160)
    job = server[1].jobs.pop(page.url.partition("#")[2])
    assert problem(page) == f"{GONE} Your image and your settings are still here: press Explain to start again."
    assert page.locator("#preview").is_visible()
    assert page.get_by_role("radio", name="Rank all regions").is_checked()
    assert page.locator("[name=regions]").input_value() == "grid:8x8"
    server[1].cancel(job)
    slow.seconds = 0


def test_delete_a_result_by_keyboard(page, slow):
    slow.seconds = 0
    ask(page, photo(seed=8))
    page.locator("#viewer[data-ready]").wait_for()
    page.wait_for_load_state("networkidle")  # the list of results is read again after the result is shown
    before = page.locator("#past li").count()
    asked = []
    page.once("dialog", lambda dialog: (asked.append(dialog.message), dialog.dismiss()))
    button = page.get_by_role("button", name="Delete the result the score").first
    button.press("Enter")
    assert asked == ["Delete the result \u201cthe score\u201d? This cannot be undone."]
    assert page.locator("#past li").count() == before
    page.once("dialog", lambda dialog: dialog.accept())
    button.press("Enter")
    page.locator("#ask").wait_for()  # what is gone is not shown any more
    page.wait_for_function("(count) => document.querySelectorAll('#past li').length === count", arg=before - 1)
    assert page.evaluate("document.activeElement.tagName") in ("BUTTON", "H1")
    assert page.locator("#spoken").text_content() == "The result was deleted."


def test_the_token_leaves_the_address_also_by_a_link_on_another_site(tab, tmp_path):
    limits = {"hosts": {"127.0.0.1"}, "token": "a-random-token"}
    with serving(tmp_path, {"bright": Slow().model}, **limits) as (url, _):
        tab.route("http://elsewhere.example/", lambda route: route.fulfill(
            body=f"<a href='{url}/?token=a-random-token'>whymask</a>", content_type="text/html"))  # fmt: skip
        tab.goto("http://elsewhere.example/")
        tab.get_by_role("link").click()
        tab.locator("#ask").wait_for()
        assert tab.url == f"{url}/"
        assert tab.evaluate("document.referrer + document.cookie") == ""
        tab.reload()
        tab.locator("#ask").wait_for()
        tab.context.clear_cookies()
        assert tab.goto(url).status == 401


OVERRIDE = "\u202egnal\u202c \u05e9\u05dc\u05d5\u05dd \u2067\x07cat"  # reversed, Hebrew, left open


def test_labels_leave_the_direction_of_the_text_alone(page, server):
    """Numbers after a label stay in their place, whatever the label holds."""
    result = server[1].history.load(done(page, photo(seed=9)))
    image = replace(result.image, target=Target(-1, OVERRIDE), prediction=OVERRIDE)
    provenance = {**result.provenance, "question": OVERRIDE}
    server[1].history.save("00000000000000ff", replace(result, image=image, provenance=provenance))
    page.goto(f"{server[0]}/#00000000000000ff")
    page.get_by_role("heading", name="gnal").wait_for()
    page.locator("#past a", has_text="gnal").wait_for()
    alternative = page.locator(".wm-photo canvas").get_attribute("aria-label")
    text = page.locator("main").inner_text() + page.title() + alternative
    assert "gnal" in text
    assert not set(text) & set("\u202e\u202c\u2067\x07")
    for selector in ("h1", ".wm-question", ".wm-head p:not(.wm-question, .wm-verdict)", "#past a"):
        assert "gnal" in page.locator(f"{selector} bdi", has_text="gnal").first.inner_text()
    # The claim reads from left to right: every later character of the numbers is further right or on a later line.
    places = page.locator(".wm-head p:not(.wm-question, .wm-verdict)").evaluate("""(claim) => {
      const last = claim.lastChild.nodeType === Node.TEXT_NODE ? claim.lastChild : claim.lastChild.firstChild;
      return [...last.data].map((_, i) => {
        const range = document.createRange();
        range.setStart(last, i);
        range.setEnd(last, i + 1);
        const box = range.getBoundingClientRect();
        return [Math.round(box.top), box.left];
      });
    }""")
    assert places == sorted(places)
    server[1].history.delete("00000000000000ff")
