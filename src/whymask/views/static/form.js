// The form: an image, a model, one of three questions, and everything else for experts.
import { api, submit } from "./server.js";
import { at, complain } from "./screen.js";

const form = at("ask");
const choices = (names) => names.map((name) => new Option(name, name));
let options = null;
let picked = null;
const sent = new Map(); // id of a job -> address of its image

/** The image that this page has sent for a job, if it has. */
export const imageOf = (id) => sent.get(id) ?? null;

export const hasImage = () => picked !== null;

/** Whether a model answers questions. */
export const talks = (model) => options.asked.includes(model);

/** Ask the server what can be chosen, and offer it. */
export async function setUp() {
  options = await api("/api/options");
  form.model.append(...choices(options.models));
  form.fill.append(new Option("the method’s default", ""), ...choices(options.fills));
  const numbers = Array.from({ length: options.max_alternatives }, (_, i) => String(i + 1));
  form.alternatives.append(new Option("none", ""), ...choices(numbers));
  form.addEventListener("change", update);
  form.keep.addEventListener("input", describeShare);
  update();
}

const asked = () => form["want-to-know"].value;
const hasWords = () => form.words.checked && !form.words.disabled;

/** Offer what fits the choices so far. What is disabled is not sent. */
function update() {
  const asks = talks(form.model.value);
  for (const field of [form.question, form.words]) {
    field.disabled = !asks;
    field.parentElement.hidden = !asks;
  }
  form.question.required = options.must_ask.includes(form.model.value);
  const words = hasWords(); // these have their own search
  const [, , rank] = form["want-to-know"];
  rank.disabled = words;
  if (words && rank.checked) form["want-to-know"].value = "fewest";
  for (const more of form.querySelectorAll(".more")) more.hidden = more.dataset.for !== asked();
  offerMethods();
  const method = options.methods.find((one) => one.name === form.method.value);
  form.target.disabled = at("methods").parentElement.disabled = words;
  form.answer.disabled = words || asked() !== "fewest";
  form.keep.disabled = asked() !== "fewest" || !(words || method.share) || (form.answer.checked && !words);
  form.k.disabled = asked() !== "exactly";
  form.k.max = form.regions.value.match(/\d+/g).reduce((product, number) => product * number, 1);
  form.alternatives.disabled = words || asked() !== "exactly" || !method.name.endsWith("+swap");
  describeShare();
}

function describeShare() {
  at("share").textContent = `${form.keep.value}%`;
  form.keep.setAttribute("aria-valuetext", `${form.keep.value}% of the score`);
}

/** The methods that answer the question and that the model can run, under headings, the usual one first. */
function offerMethods() {
  const usual = options.usual[asked()];
  const before = form.method?.value;
  const offered = options.methods.filter((one) => one.answers === asked() && one.models.includes(form.model.value));
  const key = offered.map((one) => one.name).join();
  if (at("methods").dataset.key === key) return;
  at("methods").dataset.key = key;
  const rest = offered.filter((one) => one.name !== usual);
  const groups = [["Default", offered.filter((one) => one.name === usual)]];
  for (const name of new Set(rest.map((one) => one.group))) groups.push([name, rest.filter((one) => one.group === name)]);
  at("methods").replaceChildren(...groups.map(methodGroup));
  form.method.value = offered.some((one) => one.name === before) ? before : usual;
}

function methodGroup([name, methods], number) {
  const { el } = whymask;
  const id = `methods-${number}`;
  return el("div", { role: "group", "aria-labelledby": id }, el("p", { class: "group", id }, name),
    ...methods.map((one) => el("label", {}, el("input", { type: "radio", name: "method", value: one.name }), " ",
      el("b", {}, one.name), " ", el("span", {}, one.summary))));
}

/** What the form asks for, as the server takes it. */
function wish() {
  const given = Object.fromEntries([...new FormData(form)].filter(([, value]) => typeof value === "string" && value));
  delete given["want-to-know"];
  delete given.answer;
  if (given.method === options.usual[asked()] && asked() !== "rank") delete given.method;
  if (given.keep) given.keep = String(given.keep / 100);
  if (form.answer.checked && !form.answer.disabled) given.keep = "answer";
  return given;
}

/** Take an image, or say why not. */
export function pick(file) {
  if (!file) return;
  const large = file.size > options.max_bytes;
  complain(large ? "This file is larger than 10 MB: choose a smaller one." : "");
  picked = large ? null : file;
  at("preview").hidden = large;
  at("drop-text").hidden = !large;
  if (large) return;
  at("preview").src = URL.createObjectURL(file); // kept: it is shown while its search waits
  at("preview").alt = `The chosen image, ${file.name}`;
}

/** Go to the form, to choose an image. */
export function focusForm() {
  form.scrollIntoView({ block: "start" });
  at("file").focus({ preventScroll: true });
}

at("file").addEventListener("change", (event) => pick(event.target.files[0]));
// Dropped anywhere: a browser would leave the page to show the file.
for (const name of ["dragover", "dragleave", "drop"]) {
  window.addEventListener(name, (event) => {
    event.preventDefault();
    at("drop").classList.toggle("over", name === "dragover");
    if (name === "drop" && !at("start").hidden) pick(event.dataTransfer.files[0]);
  });
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  if (!picked) {
    complain("Choose an image first.");
    return at("file").focus();
  }
  const source = at("preview").src;
  const id = await submit(wish(), form.querySelector(".go"), picked);
  if (id) sent.set(id, source);
});
// A field inside the closed details cannot show what is wrong with it.
form.addEventListener("invalid", (event) => event.target.closest("details")?.setAttribute("open", ""), true);
