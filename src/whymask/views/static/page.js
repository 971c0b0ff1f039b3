// The served page: `#id` in the address is the search or the result that is shown, `#id,id` are two results side by
// side; without one, the first screen is shown.
import { focusForm, setUp } from "./form.js";
import { examples, showGallery } from "./gallery.js";
import { remember, showHistory } from "./history.js";
import { follow, gone } from "./job.js";
import { show } from "./result.js";
import { api } from "./server.js";
import { at, complain, leave, only, screen, shownIds } from "./screen.js";

/** Leave an example for the form. */
function tryOwn(event) {
  event.preventDefault();
  history.pushState(null, "", location.pathname);
  route();
  focusForm();
}

/** Show what the address names: a search under way, past results, or the first screen. */
async function route() {
  const turn = (screen.turn += 1);
  complain();
  scrollTo({ top: 0 });
  delete at("viewer").dataset.ready;
  const [id, ...others] = shownIds();
  if (!id) {
    only("start");
    return showHistory().catch((error) => complain("The results cannot be listed", error));
  }
  try {
    if (others.length) return await show([id, others[0]], turn, tryOwn);
    const job = await api(`/api/jobs/${encodeURIComponent(id)}`);
    if (turn !== screen.turn) return;
    if (job.state === "done") return await show([id], turn, tryOwn);
    remember(id);
    await follow(id, turn, () => show([id], turn, tryOwn));
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
    document.querySelector(".again").addEventListener("click", (event) => examples.has(shownIds()[0]) && tryOwn(event));
    await route();
  } catch (error) {
    complain("The page could not be set up", error);
  }
}

start();
