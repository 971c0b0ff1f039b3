// Past results, and what is under way.
import { api } from "./server.js";
import { cardLink } from "./cards.js";
import { place } from "./job.js";
import { at, complain, leave, say, shownIds } from "./screen.js";

const MINE = "whymask-jobs"; // in the storage of this tab: the searches that it has started
const EVERY = 2000; // milliseconds between two looks at what is under way
let timer = null;
let past = [];

/** The past results, as they were last listed. */
export const pastResults = () => past;

/** Remember that this tab has started a search: it goes on while the tab is open, whatever the tab shows. */
export function remember(id) {
  sessionStorage.setItem(MINE, JSON.stringify([...mine(), id].slice(-32)));
}

const mine = () => JSON.parse(sessionStorage.getItem(MINE) ?? "[]");

/** Show both lists, and the second one again for as long as something is under way. */
export async function showHistory() {
  clearTimeout(timer);
  const [results, jobs] = await Promise.all([api("/api/results"), api("/api/jobs")]);
  past = results;
  at("past").replaceChildren(...past.map(pastEntry));
  showRunning(jobs);
  at("history").hidden = !past.length && !jobs.length;
  if (jobs.length) later();
}

/** Look again in a moment, once, however many have asked for it. */
function later() {
  clearTimeout(timer);
  timer = setTimeout(lookAgain, EVERY);
}

async function lookAgain() {
  try {
    const jobs = await api("/api/jobs");
    const own = mine();
    // The server ends a search that nobody asks about.
    const { hidden } = document;
    await Promise.all(jobs.filter((job) => own.includes(job.id)).map((job) => api(`/api/jobs/${job.id}${hidden ? "?hidden" : ""}`)));
    const shown = [...at("running").children].map((item) => item.dataset.id);
    if (shown.some((id) => !jobs.some((job) => job.id === id))) return await showHistory();
    showRunning(jobs);
    if (jobs.length) later();
  } catch {
    later(); // such as while the server is started again
  }
}

/** The items stay the same while their jobs do, so that the focus stays where it is. */
function showRunning(jobs) {
  const before = new Map([...at("running").children].map((item) => [item.dataset.id, item]));
  at("running").replaceChildren(...jobs.map((job) => {
    const item = before.get(job.id) ?? runningEntry(job);
    item.querySelector(".state").textContent = state(job);
    return item;
  }));
  at("running").hidden = !jobs.length;
}

function runningEntry(job) {
  const { el, isolated } = whymask;
  const item = el("li", {},
    el("a", { href: `#${job.id}` },
      el("img", { src: job.thumbnail, alt: "" }),
      el("b", {}, isolated(job.question ?? "An image")),
      el("small", { class: "state" }), el("small", {}, isolated(job.model))));
  item.dataset.id = job.id;
  return item;
}

function state(job) {
  if (job.state === "queued") return place(job);
  return job.expected ? `Running, about ${Math.round(100 * Math.min(job.forwards / job.expected, 1))}%` : "Running";
}

function pastEntry(entry) {
  const { el } = whymask;
  const name = `Delete the result ${entry.label}`;
  const remove = el("button", { type: "button", "aria-label": name }, "Delete");
  remove.addEventListener("click", () =>
    deletePast(entry).catch((error) => complain("The result could not be deleted", error)));
  const date = new Date(1000 * entry.saved).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
  const model = `${entry.method}, ${entry.model}`;
  return el("li", {}, cardLink(entry, entry.question, entry.summary, model, date), remove);
}

async function deletePast(entry) {
  if (!confirm(`Delete the result \u201c${entry.label}\u201d? This cannot be undone.`)) return;
  await api(`/api/results/${entry.id}`, { method: "DELETE" });
  say("The result was deleted.");
  if (shownIds().includes(entry.id)) leave();
  await showHistory();
  const rest = at("past").querySelector("button") ?? at("start-title"); // the focus was on what is gone
  rest.focus();
}
