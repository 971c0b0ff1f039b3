// A result, or two side by side: the viewer, what can be saved, what else can be asked.
import { api } from "./server.js";
import { talks } from "./form.js";
import { examples } from "./gallery.js";
import { pastResults, showHistory } from "./history.js";
import { offerNext } from "./next.js";
import { at, only, say, screen } from "./screen.js";

/** Show results; `tryOwn` leads from an example to the form. */
export async function show(ids, turn, tryOwn) {
  const docs = await Promise.all(ids.map((id) => api(`/api/results/${encodeURIComponent(id)}`)));
  if (turn !== screen.turn) return;
  docs.forEach((doc, i) => doc.explanations.forEach((entry) => (entry.id = ids[i])));
  const beside = ids.length > 1;
  const found = beside ? whymask.merged(docs) : docs[0];
  const example = !beside && examples.has(ids[0]);
  only("result", found.explanations.map(({ title }) => title).join(", "), example ? "Try your own image" : "New image");
  const extra = (entry) => entry && links(entry.id, beside, example && tryOwn);
  await whymask.mount(at("viewer"), found, { extra, beside, ask: docs.every(({ model }) => model) ? whatIf : null });
  if (turn !== screen.turn) return;
  if (beside) at("next").hidden = true;
  else offerNext(ids[0], found, talks(found.model));
  at("viewer").querySelector("h1").focus({ preventScroll: true });
  say("The result is shown.");
  await showHistory();
  offerOthers();
}

/** What the model of a result, and of one of its masks where it has a `number`, makes of some regions. */
const whatIf = ({ id, number }, regions) =>
  api(`/api/results/${encodeURIComponent(id)}/what-if`, { method: "POST", body: JSON.stringify({ regions, mask: number }) });

/** What can be saved of a result, others to compare it with, and of an example a way to one's own image. */
function links(id, beside, tryOwn) {
  const { el } = whymask;
  const save = (name, text) => el("a", { href: `/api/results/${id}/${name}`, download: "" }, text);
  const saves = el("div", { class: "saves" }, save("report.html", "Save the report"),
    save("figure.png", "Save the figure"), save("result.npz", "Save the result"), beside ? null : others(id));
  if (!tryOwn) return saves;
  const own = el("a", { href: "#", class: "own" }, "Try your own image");
  own.addEventListener("click", tryOwn);
  return el("div", {}, el("p", { class: "example" }, "This is a finished example. ", own), saves);
}

/** A choice of the other results, to be shown side by side with this one. */
function others(id) {
  const select = whymask.el("select", { class: "other", "aria-label": "Compare with another result", "data-id": id, hidden: "" });
  select.addEventListener("change", () => (location.hash = `${id},${select.value}`));
  return select;
}

function offerOthers() {
  for (const select of document.querySelectorAll("select.other")) {
    const offered = pastResults().filter(({ id }) => id !== select.dataset.id);
    const about = ({ label, method, model }) => [label, method, model].filter(Boolean).join(", ");
    select.hidden = !offered.length;
    select.replaceChildren(new Option("Compare with \u2026", "", true, true),
      ...offered.map((one) => new Option(about(one), one.id)));
    select.options[0].disabled = true;
  }
}
