// The served page: sends an image, follows its job, shows the result. `#id` in the address is the job or result shown,
// `#id,id` are two results side by side.
"use strict";

const at = (id) => document.getElementById(id);
const form = at("ask");
// `turn` counts what the page is to show: code that waited for an answer checks whether it is still wanted.
const page = { options: null, picked: null, turn: 0 };

/** An answer of the server, or an Error with the sentence it sent and its status. */
async function api(path, options) {
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    throw new Error("The server cannot be reached.");
  }
  const value = await answer.json().catch(() => ({}));
  if (answer.ok) return value;
  const error = new Error(sentence(value.error ?? `The server answered ${answer.status}.`));
  throw Object.assign(error, { status: answer.status });
}

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);

function complain(text) {
  at("problem").textContent = text;
  at("problem").hidden = !text;
}

/** Show one part of the page, under a title of its own. */
function only(part, title) {
  for (const name of ["ask", "live", "viewer"]) at(name).hidden = name !== part;
  document.querySelector(".again").hidden = part === "ask";
  document.title = title ? `${title} \u00b7 whymask` : "whymask";
}

/** Back to the form, with a word on why. */
function leave(why) {
  page.turn += 1;
  history.replaceState(null, "", location.pathname);
  only("ask");
  form.querySelector("h1").focus({ preventScroll: true });
  complain(why);
}

// The form

const choices = (names) => names.map((name) => new Option(name, name));

function fillForm() {
  const { options } = page;
  form.model.append(...choices(options.models));
  form.fill.append(new Option("the method's usual", ""), ...choices(options.fills));
  form.model.addEventListener("change", offerMethods);
  for (const field of [form.method, form.words]) field.addEventListener("change", describeMethod);
  offerMethods();
}

/** The methods that the chosen model can run, and a question where it answers one. */
function offerMethods() {
  const { options } = page;
  const before = form.method.value || options.method;
  const offered = options.methods.filter((method) => method.models.includes(form.model.value));
  const kinds = { mask: "A mask: a few regions that are enough", ordering: "An ordering of all regions" };
  form.method.replaceChildren(...Object.entries(kinds).map(([kind, title]) => {
    const names = offered.filter((method) => method.returns === kind).map((method) => method.name);
    return whymask.el("optgroup", { label: title }, ...choices(names));
  }));
  form.method.value = offered.some((method) => method.name === before) ? before : options.method;
  const asked = options.asked.includes(form.model.value);
  for (const field of [form.question, form.words]) {
    field.disabled = !asked; // what is disabled is not sent
    field.parentElement.hidden = !asked;
  }
  describeMethod();
}

function describeMethod() {
  const method = page.options.methods.find((one) => one.name === form.method.value);
  const words = form.words.checked && !form.words.disabled; // these have a search of their own
  form.method.disabled = form.target.disabled = words;
  at("about").textContent = words ? "A mask for each word that the image supports, all by one search."
    : `${sentence(method.summary)}.`;
  form.k.disabled = !words && !method.k && method.name !== page.options.method; // with a size the default is another
  form.k.placeholder = method.k && !words ? "the model’s usual" : "as few as are enough";
}

function pick(file) {
  if (!file) return;
  complain(file.size > page.options.max_bytes ? "The file is larger than 10 MB." : "");
  page.picked = file.size > page.options.max_bytes ? null : file;
  at("preview").hidden = !page.picked;
  at("drop-text").hidden = Boolean(page.picked);
  if (!page.picked) return;
  URL.revokeObjectURL(at("preview").src);
  at("preview").src = URL.createObjectURL(file);
  at("preview").alt = `The chosen image, ${file.name}`;
}

at("file").addEventListener("change", (event) => pick(event.target.files[0]));
// Dropped anywhere: a browser would leave the page to show the file.
for (const name of ["dragover", "dragleave", "drop"]) {
  window.addEventListener(name, (event) => {
    event.preventDefault();
    at("drop").classList.toggle("over", name === "dragover");
    if (name === "drop" && !form.hidden) pick(event.dataTransfer.files[0]);
  });
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  complain("");
  if (!page.picked) return complain("Choose an image first.");
  const button = form.querySelector(".go");
  button.disabled = true;
  try {
    const query = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
    const headers = { "Content-Type": page.picked.type || "application/octet-stream" };
    const { id } = await api(`/api/jobs?${query}`, { method: "POST", body: page.picked, headers });
    location.hash = id;
  } catch (error) {
    complain(error.message);
  } finally {
    button.disabled = false;
  }
});

// A job

/** Resolves after so many milliseconds, or as soon as the page is shown or hidden. */
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

/**
 * Show how far a job is until it is over. The page asks again and again: a stream for every tab would take all of the
 * few connections that a browser opens to one server. The server ends a job that nobody asks about.
 */
async function follow(id, turn) {
  only("live", "Waiting");
  for (const name of ["live-photo", "live-only"]) at(name).width = at(name).height = 0;
  at("live-title").focus({ preventScroll: true });
  at("cancel").onclick = () => api(`/api/jobs/${id}`, { method: "DELETE" }).catch((error) => complain(error.message));
  const live = { turn, quarter: -1, image: null, lost: false };
  while (turn === page.turn) {
    const { hidden } = document;
    try {
      const job = await api(`/api/jobs/${id}${hidden ? "?hidden" : ""}`);
      if (turn !== page.turn) return;
      if (job.state === "failed" || job.state === "cancelled") return leave(sentence(job.message));
      if (job.state === "done") return await show([id], turn);
      await update(id, job, live);
      if (live.lost && turn === page.turn) complain("");
      live.lost = false;
    } catch (error) {
      if (turn !== page.turn) return;
      if (error.status < 500) return leave(error.message); // such as after a restart of the server
      complain(`${error.message} Trying again.`);
      live.lost = true;
    }
    if (hidden === document.hidden) await pause(hidden ? 5000 : 250); // else the server has to know at once
  }
}

/** Show what is new about a job. */
async function update(id, job, live) {
  const share = job.expected ? Math.min(job.forwards / job.expected, 1) : 0;
  tell(job, share);
  if (Math.floor(4 * share) !== live.quarter) {
    live.quarter = Math.floor(4 * share);
    at("spoken").textContent = `${at("live-title").textContent}. ${at("numbers").textContent}`;
  }
  if (!job.picture) return;
  live.image ??= await whymask.ExplainedImage.load(await api(`/api/jobs/${id}/picture`));
  if (live.turn === page.turn) draw(live.image, job);
}

function tell(job, share) {
  const title = job.message ? job.message.replace(/\.$/, "")
    : job.state === "queued" ? "Waiting for other images" : "Searching";
  at("live-title").textContent = title;
  document.title = `${title} \u00b7 whymask`;
  if (job.state === "running" && job.expected) at("progress").value = share;
  else at("progress").removeAttribute("value");
  const best = job.score === null ? "" : ` \u00b7 so far ${job.regions.length} regions keep ${whymask.two(job.score)}`;
  // How many passes a method that uses gradients will take is not known.
  at("numbers").textContent = job.expected ? `${job.forwards} of about ${job.expected} forwards${best}`
    : job.forwards ? `${job.forwards} forward and backward passes` : "";
}

/** The best regions so far. */
function draw(image, job) {
  const shapes = [image.photo.naturalWidth / image.photo.naturalHeight, image.width / image.height];
  const stage = document.querySelector(".live-stage");
  stage.style.gridTemplateColumns = shapes.map((shape) => `minmax(0, ${shape}fr)`).join(" ");
  const kept = new Uint8Array(image.n);
  for (const region of job.regions) kept[region] = 1;
  const some = job.regions.length > 0; // of several answers no mask is the best one
  at("live-only").parentElement.hidden = !some;
  image.paint(at("live-photo"), kept, { show: { mask: some, outline: some } });
  image.compose(at("live-only"), kept);
}

// A result

/** Show a result, or several side by side. */
async function show(ids, turn) {
  const docs = await Promise.all(ids.map((id) => api(`/api/results/${encodeURIComponent(id)}`)));
  if (turn !== page.turn) return;
  docs.forEach((doc, i) => doc.explanations.forEach((entry) => (entry.id = ids[i])));
  const files = { "report.html": "Save the report", "figure.png": "Save the figure", "result.npz": "Save the result" };
  const saves = ({ id }) => Object.entries(files).map(([name, text]) =>
    whymask.el("a", { href: `/api/results/${id}/${name}`, download: "" }, text));
  const extra = (entry) => entry && whymask.el("div", { class: "saves" }, ...saves(entry), ids.length > 1 ? null : beside(entry.id));
  const found = ids.length > 1 ? whymask.merged(docs) : docs[0];
  delete at("viewer").dataset.ready;
  only("viewer", found.explanations.map(({ title }) => title).join(", "));
  const ask = ({ id }, regions) =>
    api(`/api/results/${encodeURIComponent(id)}/what-if`, { method: "POST", body: JSON.stringify({ regions }) });
  await whymask.mount(at("viewer"), found, { extra, ask, beside: ids.length > 1 });
  if (turn !== page.turn) return;
  at("viewer").querySelector("h1").focus({ preventScroll: true });
  at("spoken").textContent = "The result is shown.";
  await listPast();
}

/** A choice of the other results, to be shown side by side with this one. */
function beside(id) {
  const select = whymask.el("select", { class: "other", "aria-label": "Compare with another result", "data-id": id });
  select.addEventListener("change", () => (location.hash = `${id},${select.value}`));
  return select;
}

function offerOthers(past) {
  for (const select of document.querySelectorAll("select.other")) {
    const others = past.filter(({ id }) => id !== select.dataset.id);
    const about = ({ label, method, model }) => [label, method, model].filter(Boolean).join(", ");
    select.hidden = !others.length;
    select.replaceChildren(new Option("Compare with \u2026", "", true, true), ...others.map((one) => new Option(about(one), one.id)));
    select.options[0].disabled = true;
  }
}

async function listPast() {
  const past = await api("/api/results");
  offerOthers(past);
  at("history").hidden = !past.length;
  at("past").replaceChildren(...past.map(pastEntry));
}

function pastEntry(entry) {
  const { el, isolated } = whymask;
  const remove = el("button", { type: "button", "aria-label": `Delete the result ${entry.label}` }, "Delete");
  remove.addEventListener("click", () => deletePast(entry).catch((error) => complain(error.message)));
  return el("li", {},
    el("a", { href: `#${entry.id}` },
      el("img", { src: entry.thumbnail, alt: "", loading: "lazy" }),
      isolated(entry.label), el("small", {}, isolated(`${entry.method}, ${entry.model}`)),
      entry.question ? el("small", {}, isolated(entry.question)) : null),
    remove);
}

async function deletePast(entry) {
  if (!confirm(`Delete the result \u201c${entry.label}\u201d? It cannot be restored.`)) return;
  await api(`/api/results/${entry.id}`, { method: "DELETE" });
  at("spoken").textContent = "The result was deleted.";
  if (shownIds().includes(entry.id)) leave("");
  await listPast();
  const rest = at("past").querySelector("button") ?? form.querySelector("h1"); // the focus was on what is gone
  rest.focus();
}

/** The jobs or results that the address names. */
const shownIds = () => location.hash.slice(1).split(",").filter(Boolean);

/** Show what the address names: a job under way, past results, or the form. */
async function route() {
  const turn = (page.turn += 1);
  complain("");
  const [id, ...others] = shownIds();
  if (!id) return only("ask");
  try {
    if (others.length) return await show([id, ...others.slice(0, 1)], turn);
    const job = await api(`/api/jobs/${encodeURIComponent(id)}`);
    if (turn !== page.turn) return;
    if (job.state === "done") await show([id], turn);
    else follow(id, turn);
  } catch (error) {
    if (turn === page.turn) leave(error.message);
  }
}

async function start() {
  try {
    page.options = await api("/api/options");
    fillForm();
    await listPast().catch((error) => complain(error.message)); // the page works without its history
    window.addEventListener("hashchange", route);
    await route();
  } catch (error) {
    complain(error.message);
  }
}

start();
