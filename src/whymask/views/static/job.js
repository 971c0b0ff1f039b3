// A search under way: its image while it waits, how far it is, the best regions so far.
import { api } from "./server.js";
import { hasImage, imageOf } from "./form.js";
import { at, complain, leave, only, say, screen } from "./screen.js";

/**
 * Show how far a job is until it is over. The page asks again and again: a stream for every tab would take all of the
 * few connections that a browser opens to one server. The server ends a job that nobody asks about.
 */
export async function follow(id, turn, show) {
  only("live", "Waiting");
  for (const name of ["live-photo", "live-only"]) at(name).width = at(name).height = 0;
  at("live-waiting").hidden = true;
  at("live-only").parentElement.hidden = true;
  at("live-title").focus({ preventScroll: true });
  at("cancel").onclick = () => api(`/api/jobs/${id}`, { method: "DELETE" })
    .catch((error) => complain("The search could not be cancelled", error));
  const live = { turn, quarter: -1, image: null, lost: false };
  while (turn === screen.turn) {
    const { hidden } = document;
    try {
      const job = await api(`/api/jobs/${id}${hidden ? "?hidden" : ""}`);
      if (turn !== screen.turn) return;
      if (job.state === "failed") return leave(`The search failed: ${job.message}`);
      if (job.state === "cancelled") return leave(job.message);
      if (job.state === "done") return await show();
      await update(id, job, live);
      if (live.lost && turn === screen.turn) complain();
      live.lost = false;
    } catch (error) {
      if (turn !== screen.turn) return;
      if (error.status === 404) return leave(gone());
      if (error.status && error.status < 500) return leave(`The search cannot be shown: ${error.message}`);
      complain(error.status ? `Trying again: ${error.message}`
        : "The server cannot be reached. If it was stopped, start it again with \u201cwhymask serve\u201d. This page keeps trying.");
      live.lost = true;
    }
    if (hidden === document.hidden) await pause(hidden ? 5000 : 250); // else the server has to know at once
  }
}

/** What to do where the server does not know a search or a result. */
export function gone() {
  const next = hasImage() ? "Your image and your settings are still here: press Explain to start again."
    : "Choose an image to start again.";
  return `The server does not know this search any more: it was restarted, or the result was deleted. ${next}`;
}

/** Resolves after this many milliseconds, or as soon as the page is shown or hidden. */
function pause(time) {
  return new Promise((resolve) => {
    const timer = setTimeout(done, time);
    function done() {
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", done);
      resolve();
    }
    document.addEventListener("visibilitychange", done);
  });
}

/** Show what is new about a job. */
async function update(id, job, live) {
  const share = job.expected ? Math.min(job.forwards / job.expected, 1) : 0;
  tell(job, share);
  if (Math.floor(4 * share) !== live.quarter) {
    live.quarter = Math.floor(4 * share);
    say(`${at("live-title").textContent}. ${at("numbers").textContent}`);
  }
  if (!job.picture) return await showWaiting(id, live);
  live.image ??= await whymask.ExplainedImage.load(await api(`/api/jobs/${id}/picture`));
  if (live.turn !== screen.turn) return;
  at("live-waiting").hidden = true;
  draw(live.image, job);
}

/** The image itself, until the model has seen it. */
async function showWaiting(id, live) {
  if (!at("live-waiting").hidden) return;
  const source = imageOf(id) ?? (await api("/api/jobs")).find((job) => job.id === id)?.thumbnail;
  if (!source || live.turn !== screen.turn) return;
  at("live-waiting").src = source;
  at("live-waiting").hidden = false;
}

function tell(job, share) {
  const title = job.state === "queued" ? "Waiting" : job.message ? job.message.replace(/\.$/, "") : "Searching";
  at("live-title").textContent = title;
  document.title = `${title} \u00b7 whymask`;
  if (job.state === "running" && job.expected) at("progress").value = share;
  else at("progress").removeAttribute("value");
  at("numbers").textContent = numbers(job);
}

/** How far a job is, in a line. */
function numbers(job) {
  if (job.state === "queued") return place(job);
  const best = job.score === null ? "" : ` \u00b7 so far ${job.regions.length} regions score ${whymask.two(job.score)}`;
  // How many passes a method that uses gradients will take is not known.
  return job.expected ? `${job.forwards} of about ${job.expected} forwards${best}`
    : job.forwards ? `${job.forwards} forward and backward passes` : "";
}

/** The place of a job in the queue. */
export function place({ ahead }) {
  return ahead > 1 ? `${ahead} other images are ahead of this one.` : ahead ? "One other image is ahead of this one." : "It is next.";
}

/** The best regions so far. */
function draw(image, job) {
  const shapes = [image.photo.naturalWidth / image.photo.naturalHeight, image.width / image.height];
  const stage = document.querySelector(".live-stage");
  stage.style.gridTemplateColumns = shapes.map((shape) => `minmax(0, ${shape}fr)`).join(" ");
  const kept = whymask.flags(image.n, job.regions);
  const some = job.regions.length > 0; // of several answers no mask is the best one
  at("live-only").parentElement.hidden = !some;
  image.paint(at("live-photo"), kept, { show: { mask: some, outline: some } });
  image.compose(at("live-only"), kept);
}
