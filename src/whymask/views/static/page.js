// The served page: sends an image, follows its job, shows the result. `#id` in the address is the job or result shown.
"use strict";

const at = (id) => document.getElementById(id);
const form = at("ask");
const page = { options: null, picked: null, stream: null, scene: null };

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

/** Show one part of the page. */
function only(part) {
  for (const name of ["ask", "live", "viewer"]) at(name).hidden = name !== part;
  document.querySelector(".again").hidden = part === "ask";
}

// The form

function fillForm() {
  const options = page.options;
  const choices = (names) => names.map((name) => new Option(name, name));
  form.model.append(...choices(options.models));
  form.fill.append(...choices(options.fills));
  const kinds = { mask: "A mask: a few regions that are enough", ordering: "An ordering of all regions" };
  for (const [kind, title] of Object.entries(kinds)) {
    const names = options.methods.filter((method) => method.returns === kind).map((method) => method.name);
    const group = whymask.el("optgroup", { label: title }, ...choices(names));
    form.method.append(group);
  }
  form.method.value = options.method;
  form.method.addEventListener("change", describeMethod);
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
for (const [name, over] of [["dragover", true], ["dragleave", false], ["drop", false]]) {
  at("drop").addEventListener(name, (event) => {
    event.preventDefault();
    at("drop").classList.toggle("over", over);
    if (name === "drop") pick(event.dataTransfer.files[0]);
  });
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  complain("");
  if (!page.picked) return complain("Choose an image first.");
  const button = form.querySelector(".go");
  button.disabled = true;
  try {
    const wish = new FormData(form);
    if (form.k.disabled) wish.delete("k");
    const query = new URLSearchParams([...wish].filter(([, value]) => value));
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

function follow(id) {
  only("live");
  page.scene = null;
  for (const name of ["live-photo", "live-only"]) at(name).width = at(name).height = 0;
  at("live-title").focus({ preventScroll: true });
  at("cancel").onclick = () => api(`/api/jobs/${id}`, { method: "DELETE" }).catch((error) => complain(error.message));
  page.stream = new EventSource(`/api/jobs/${id}/events`);
  let quarter = -1;
  page.stream.onmessage = async (event) => {
    const job = JSON.parse(event.data);
    const share = job.expected ? Math.min(job.forwards / job.expected, 1) : 0;
    tell(job, share);
    if (Math.floor(4 * share) !== quarter) {
      quarter = Math.floor(4 * share);
      at("spoken").textContent = `${at("live-title").textContent}. ${at("numbers").textContent}`;
    }
    if (["done", "failed", "cancelled"].includes(job.state)) {
      page.stream.close();
      if (job.state === "done") return show(id);
      location.hash = "";
      complain(sentence(job.message));
    }
    if (job.picture) drawJob(id, job);
  };
  page.stream.onerror = () => {
    if (page.stream.readyState !== EventSource.CLOSED) return;
    complain("The connection to the server was lost. Load this page again.");
  };
}

function tell(job, share) {
  at("live-title").textContent = job.message ? job.message.replace(/\.$/, "")
    : job.state === "queued" ? "Waiting for other images" : "Searching";
  if (job.state === "running" && job.expected) at("progress").value = share;
  else at("progress").removeAttribute("value");
  const best = job.score === null ? "" : ` \u00b7 so far ${job.regions.length} regions keep ${whymask.two(job.score)}`;
  at("numbers").textContent = job.expected ? `${job.forwards} of about ${job.expected} forwards${best}` : "";
}

async function drawJob(id, job) {
  page.scene ??= api(`/api/jobs/${id}/picture`).then(whymask.Scene.load);
  const scene = await page.scene;
  const shapes = [scene.photo.naturalWidth / scene.photo.naturalHeight, scene.width / scene.height];
  const stage = document.querySelector(".live-stage");
  stage.style.gridTemplateColumns = shapes.map((shape) => `minmax(0, ${shape}fr)`).join(" ");
  const kept = new Uint8Array(scene.n);
  for (const region of job.regions) kept[region] = 1;
  scene.paint(at("live-photo"), kept, { show: { mask: true, outline: true } });
  scene.compose(at("live-only"), kept);
}

// A result

async function show(id) {
  const found = await api(`/api/results/${id}`);
  const save = (name, text) => whymask.el("a", { href: `/api/results/${id}/${name}`, download: "" }, text);
  const files = { "report.html": "Save the report", "figure.png": "Save the figure", "result.npz": "Save the result" };
  const links = () => Object.entries(files).map(([name, text]) => save(name, text));
  const saves = () => whymask.el("div", { class: "saves" }, ...links());
  only("viewer");
  await whymask.mount(at("viewer"), found, { extra: saves });
  await listPast();
}

async function listPast() {
  const past = await api("/api/results");
  at("history").hidden = !past.length;
  at("past").replaceChildren(...past.map((entry) => whymask.el("li", {},
    whymask.el("a", { href: `#${entry.id}` },
      whymask.el("img", { src: entry.thumbnail, alt: "", loading: "lazy" }),
      whymask.el("span", {}, entry.label), whymask.el("small", {}, entry.method)))));
}

/** Show what the address names: a job under way, a past result, or the form. */
async function route() {
  page.stream?.close();
  const id = location.hash.slice(1);
  if (!id) return only("ask");
  complain("");
  try {
    const job = await api(`/api/jobs/${encodeURIComponent(id)}`);
    if (job.state === "done") await show(id);
    else follow(id);
  } catch (error) {
    location.hash = "";
    complain(error.message);
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
