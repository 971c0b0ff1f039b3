// The served page: `#id` in the address is the search or the result that is shown; without one, the first screen.
import { api } from "./server.js";
import { focusForm, setUp, talks } from "./form.js";
import { examples, showGallery } from "./gallery.js";
import { remember, showHistory } from "./history.js";
import { follow, gone } from "./job.js";
import { offerNext } from "./next.js";
import { at, complain, leave, only, say, screen } from "./screen.js";

/** Show a result. */
async function show(id, turn) {
  const found = await api(`/api/results/${id}`);
  if (turn !== screen.turn) return;
  only("result", found.explanations[0].title, examples.has(id) ? "Try your own image" : "New image");
  await whymask.mount(at("viewer"), found, { extra: () => files(id) });
  if (turn !== screen.turn) return;
  offerNext(id, found, talks(found.model));
  at("viewer").querySelector("h1").focus({ preventScroll: true });
  say("The result is shown.");
  await showHistory();
}

/** What can be saved of a result; of an example, a way to one's own image. */
function files(id) {
  const { el } = whymask;
  const save = (name, text) => el("a", { href: `/api/results/${id}/${name}`, download: "" }, text);
  const saves = el("div", { class: "saves" }, save("report.html", "Save the report"),
    save("figure.png", "Save the figure"), save("result.npz", "Save the result"));
  if (!examples.has(id)) return saves;
  const own = el("a", { href: "#", class: "own" }, "Try your own image");
  own.addEventListener("click", tryOwn);
  return el("div", {}, saves, el("p", { class: "example" }, "This is a finished example. ", own));
}

/** Leave an example for the form. */
function tryOwn(event) {
  event.preventDefault();
  history.pushState(null, "", location.pathname);
  route();
  focusForm();
}

/** Show what the address names: a search under way, a result, or the first screen. */
async function route() {
  const turn = (screen.turn += 1);
  complain();
  scrollTo({ top: 0 });
  delete at("viewer").dataset.ready;
  const id = location.hash.slice(1);
  if (!id) {
    only("start");
    return showHistory().catch((error) => complain("The past results cannot be listed", error));
  }
  try {
    const job = await api(`/api/jobs/${encodeURIComponent(id)}`);
    if (turn !== screen.turn) return;
    if (job.state === "done") return await show(id, turn);
    remember(id);
    await follow(id, turn, show);
  } catch (error) {
    if (turn !== screen.turn) return;
    leave(error.status === 404 ? gone() : `This result cannot be shown: ${error.message}`);
  }
}

async function start() {
  try {
    await setUp();
    await showGallery().catch(() => null); // the page works without it, and without its history
    window.addEventListener("hashchange", route);
    document.querySelector(".again").addEventListener("click", (event) => examples.has(location.hash.slice(1)) && tryOwn(event));
    await route();
  } catch (error) {
    complain("The page could not be set up", error);
  }
}

start();
