// What else can be asked about the image of a result, without choosing it again.
import { submit } from "./server.js";
import { at } from "./screen.js";

/** Offer what the model of a result can be asked; `talks` says whether it answers questions. */
export function offerNext(id, { explanations: [entry], model }, talks) {
  const offers = model === null ? [] : [
    ...(canBeWrong(entry) ? [repair(id, entry)] : []),
    ...questions(id, entry, talks),
  ];
  at("next").querySelector(".next-list").replaceChildren(...offers);
  at("next").hidden = !offers.length;
}

/** Whether an answer may be wrong: a score is none, several are not repaired together, and one may be repaired already. */
const canBeWrong = (entry) =>
  entry.kind !== "masks" && entry.prediction !== null && entry.target.label !== "the score" && !entry.repaired;

/** "It should say ...": look for the regions that support another answer. */
function repair(id, entry) {
  const { el, quoted, words } = whymask;
  const wanted = el("input", { name: "want", required: "", maxlength: 500, autocomplete: "off", placeholder: other(entry) });
  const form = el("form", { class: "repair" },
    el("label", {}, el("span", {}, ...words`Is ${quoted(entry.given ?? entry.prediction)} wrong? The model should say`), wanted),
    el("button", {}, "Repair the answer"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    submit({ result: id, want: wanted.value.trim() }, form.querySelector("button"));
  });
  return form;
}

const other = ({ prediction }) => ({ Yes: "No", No: "Yes" })[prediction] ?? "the right answer";

/** The other questions that fit a result. */
function questions(id, entry, talks) {
  const k = Math.max(entry.regions?.length ?? 0, 1);
  return [
    entry.kind === "mask" && !entry.alternatives.length && k < entry.n / 2
      && ["Find other masks", `Up to two others of ${k} region${k > 1 ? "s" : ""} that may be enough as well.`, { k, alternatives: 2 }],
    talks && entry.kind !== "masks" && entry.prediction !== null && entry.prediction.trim().includes(" ")
      && ["Explain each word", "The evidence for every word of the answer.", { words: "yes" }],
    entry.kind === "ordering" && ["Find the fewest regions", "Which few are enough to keep 90% of the score?", { keep: "0.9" }],
    entry.kind === "mask" && ["Rank all regions", "From the most to the least important, with curves.", { method: "discs+swap+lean" }],
  ].filter(Boolean).map(([title, about, wish]) => question(id, title, about, wish));
}

function question(id, title, about, wish) {
  const { el } = whymask;
  const button = el("button", { type: "button" }, title);
  button.addEventListener("click", () => submit({ result: id, ...wish }, button));
  return el("p", {}, button, el("small", {}, about));
}
