// The served page: sends an image, follows its job, shows the result. `#id` in the address is the job or result shown.
"use strict";

const at = (id) => document.getElementById(id);
const form = at("ask");
// `turn` counts what the page was told to show: whoever waited for an answer looks whether it is still wanted.
const page = { options: null, picked: null, stream: null, turn: 0 };

/** An answer of the server, or an Error with the sentence it sent. */
async function api(path, options) {
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    throw new Error("The server cannot be reached.");
  }
  const value = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(sentence(value.error ?? `The server answered ${answer.status}.`));
  return value;
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
  page.stream?.close();
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
  form.fill.append(...choices(options.fills));
  form.model.addEventListener("change", offerMethods);
  form.method.addEventListener("change", describeMethod);
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
  form.question.disabled = !asked; // what is disabled is not sent
  form.question.parentElement.hidden = !asked;
  describeMethod();
}

function describeMethod() {
  const method = page.options.methods.find((one) => one.name === form.method.value);
  at("about").textContent = `${sentence(method.summary)}.`;
  form.k.disabled = !method.k;
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

function follow(id, turn) {
  only("live", "Waiting");
  for (const name of ["live-photo", "live-only"]) at(name).width = at(name).height = 0;
  at("live-title").focus({ preventScroll: true });
  at("cancel").onclick = () => api(`/api/jobs/${id}`, { method: "DELETE" }).catch((error) => complain(error.message));
  const stream = new EventSource(`/api/jobs/${id}/events`);
  page.stream = stream;
  let quarter = -1;
  let scene = null;
  let lost = false;
  const hear = async (job) => {
    const share = job.expected ? Math.min(job.forwards / job.expected, 1) : 0;
    if (job.state === "failed" || job.state === "cancelled") return leave(sentence(job.message));
    if (job.state === "done") {
      stream.close();
      return show(id, turn);
    }
    tell(job, share);
    if (Math.floor(4 * share) !== quarter) {
      quarter = Math.floor(4 * share);
      at("spoken").textContent = `${at("live-title").textContent}. ${at("numbers").textContent}`;
    }
    if (!job.picture) return;
    scene ??= api(`/api/jobs/${id}/picture`).then(whymask.Scene.load).catch((error) => {
      scene = null; // the next message tries again
      throw error;
    });
    const loaded = await scene;
    if (turn === page.turn && stream.readyState !== EventSource.CLOSED) draw(loaded, job);
  };
  stream.onmessage = (event) => {
    if (turn !== page.turn) return;
    if (lost) complain("");
    lost = false;
    hear(JSON.parse(event.data)).catch((error) => turn === page.turn && complain(error.message));
  };
  stream.onerror = () => {
    if (turn !== page.turn) return;
    lost = true;
    const closed = stream.readyState === EventSource.CLOSED; // else the browser tries again by itself
    complain(`The connection to the server was lost. ${closed ? "Load this page again." : "Trying again."}`);
  };
}

function tell(job, share) {
  const title = job.message ? job.message.replace(/\.$/, "")
    : job.state === "queued" ? "Waiting for other images" : "Searching";
  at("live-title").textContent = title;
  document.title = `${title} \u00b7 whymask`;
  if (job.state === "running" && job.expected) at("progress").value = share;
  else at("progress").removeAttribute("value");
  const best = job.score === null ? "" : ` \u00b7 so far ${job.regions.length} regions keep ${whymask.two(job.score)}`;
  // How many passes a method that goes backward will take is not known.
  at("numbers").textContent = job.expected ? `${job.forwards} of about ${job.expected} forwards${best}`
    : job.forwards ? `${job.forwards} forward and backward passes` : "";
}

/** The best regions so far. */
function draw(scene, job) {
  const shapes = [scene.photo.naturalWidth / scene.photo.naturalHeight, scene.width / scene.height];
  const stage = document.querySelector(".live-stage");
  stage.style.gridTemplateColumns = shapes.map((shape) => `minmax(0, ${shape}fr)`).join(" ");
  const kept = new Uint8Array(scene.n);
  for (const region of job.regions) kept[region] = 1;
  scene.paint(at("live-photo"), kept, { show: { mask: true, outline: true } });
  scene.compose(at("live-only"), kept);
}

// A result

async function show(id, turn) {
  const found = await api(`/api/results/${id}`);
  if (turn !== page.turn) return;
  const save = (name, text) => whymask.el("a", { href: `/api/results/${id}/${name}`, download: "" }, text);
  const files = { "report.html": "Save the report", "figure.png": "Save the figure", "result.npz": "Save the result" };
  const links = () => Object.entries(files).map(([name, text]) => save(name, text));
  const saves = () => whymask.el("div", { class: "saves" }, ...links());
  delete at("viewer").dataset.ready;
  only("viewer", found.explanations[0].target.label);
  await whymask.mount(at("viewer"), found, { extra: saves });
  if (turn !== page.turn) return;
  at("viewer").querySelector("h1").focus({ preventScroll: true });
  at("spoken").textContent = "The result is shown.";
  await listPast();
}

async function listPast() {
  const past = await api("/api/results");
  at("history").hidden = !past.length;
  at("past").replaceChildren(...past.map((entry) => whymask.el("li", {},
    whymask.el("a", { href: `#${entry.id}` },
      whymask.el("img", { src: entry.thumbnail, alt: "", loading: "lazy" }),
      whymask.el("span", {}, entry.label), whymask.el("small", {}, `${entry.method}, ${entry.model}`),
      entry.question ? whymask.el("small", {}, entry.question) : null))));
}

/** Show what the address names: a job under way, a past result, or the form. */
async function route() {
  const turn = (page.turn += 1);
  page.stream?.close();
  complain("");
  const id = location.hash.slice(1);
  if (!id) return only("ask");
  try {
    const job = await api(`/api/jobs/${encodeURIComponent(id)}`);
    if (turn !== page.turn) return;
    if (job.state === "done") await show(id, turn);
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
