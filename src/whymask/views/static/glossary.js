// The meaning of the viewer's terms: on demand where they appear, and all of them in a list below.
"use strict";

whymask.TERMS = {
  "region": "A piece of the image that is kept or masked as a whole: a superpixel, or a square of a grid.",
  "score": "The model\u2019s probability of the answer that is explained, from 0 to 1.",
  "whole image": "The score when everything the model sees is kept. On a bar it is the vertical mark.",
  "blank image": "The score when every region is masked. If it is high, the answer does not come from the image.",
  "only these regions": "The score when these regions are kept and all others are masked.",
  "without them": "The score when these regions are masked and all others are kept.",
  "fill": "What replaces masked regions: a colour, a blurred copy of the image, or noise.",
  "on another fill": "The score of the same regions on a fill that the search did not use. The score of real evidence stays high there.",
  "flat colour": "The score when the regions are painted in one flat colour. If it is high, their outline alone gives the answer.",
  "shuffled pixels": "The score when the pixels of the regions are shuffled. If it is high, their outline and colours alone give the answer.",
  "another answer": "The score that the same search reaches for another answer. If it is about as high, the mask is no better than chance.",
  "answer kept": "Whether the model still gives its answer to this image.",
  "not seen by the model": "The part of the photo that the model\u2019s preprocessing cuts off. It has no regions.",
  "dimmed": "Seen by the model, but not part of the evidence shown.",
  "heat": "Regions coloured by their place in the order: bright is first, dark is last.",
  "insertion": "The score as regions are added to a blank image, most important first. The earlier it rises, the better the order.",
  "deletion": "The score as regions are removed from the whole image, most important first. The earlier it falls, the better the order.",
  "AUC": "Area under the curve: the mean score over all shares of the area. For insertion higher is better, for deletion lower.",
  "initial mask": "The regions that the search chose first, before it ordered the others.",
  "best score seen": "The highest score of any mask of that size that the search tried.",
  "enough": "The score that a mask has to reach.",
  "area": "The share of what the model sees that the regions cover.",
  "rank": "The place of a region in the order; 1 is the most important.",
  "entering": "How much the score changes when the region is added to those before it.",
  "leaving": "How much the score changes when the region is removed after those before it.",
  "forwards": "Masked images that were run through the model: the cost of a search.",
  "without a cache": "How many forwards the search would have taken if it had not reused the scores of masked images.",
  "replay": "A second run of the order, region by region, to draw the curves.",
  "seed": "The number from which the random choices of a search start. The same seed gives the same result.",
  "insertion at a share": "The insertion score at 30% or 50% of the area.",
  "best insertion up to a share": "The highest insertion score up to 30% or 50% of the area.",
  "highest insertion": "The highest insertion score at any area.",
};

/** Names of measures and settings, and the word that explains each. */
const ALIASES = {
  insertion_auc: "AUC", deletion_auc: "AUC", full_score: "whole image", blank_score: "blank image", score: "only these regions",
  removed_score: "without them", goal: "enough", "at@30": "insertion at a share", "at@50": "insertion at a share",
  "best@30": "best insertion up to a share", "best@50": "best insertion up to a share", high: "highest insertion",
  "control, flat": "flat colour", "control, shuffled": "shuffled pixels",
};

/** The entry of the glossary for a name in a table, if it has one. */
function meaningOf(name) {
  const [what] = name.split(/, (?!flat|shuffled)/);
  const known = ALIASES[name] ?? ALIASES[what] ?? { fill: "on another fill", "other answer": "another answer" }[what];
  return known ?? what;
}

/** A word that can be asked what it means: a button that opens a note. Where nothing is known of it, the word itself. */
whymask.term = function term(name, shown = name) {
  const { el, TERMS } = whymask;
  const word = meaningOf(name);
  if (!(word in TERMS) || !("popover" in HTMLElement.prototype)) return shown;
  const note = el("span", { popover: "", class: "wm-meaning" });
  const button = el("button", { type: "button" }, shown);
  button.popoverTargetElement = note;
  let at = 0; // where the word is while its note is open
  const follow = () => Math.abs(button.getBoundingClientRect().top - at) > 4 && note.hidePopover();
  note.addEventListener("beforetoggle", ({ newState }) => {
    removeEventListener("scroll", follow, true);
    if (newState !== "open") return;
    note.replaceChildren(el("b", {}, word), ` ${TERMS[word]}`);
    at = button.getBoundingClientRect().top;
    place(note, button);
    addEventListener("scroll", follow, true);
  });
  return el("span", { class: "wm-term" }, button, note);
};

/** Put a note under its word, or above it near the end of the screen. */
function place(note, button) {
  const { left, top, bottom } = button.getBoundingClientRect();
  const width = Math.min(340, innerWidth - 24);
  const above = bottom > 0.7 * innerHeight;
  Object.assign(note.style, {
    width: `${width}px`,
    left: `${Math.max(12, Math.min(left, innerWidth - width - 12))}px`,
    top: above ? "auto" : `${bottom + 6}px`,
    bottom: above ? `${innerHeight - top + 6}px` : "auto",
  });
}

/** All words, folded. */
whymask.glossary = function glossary() {
  const { el, fold, TERMS } = whymask;
  const list = () => el("dl", { class: "wm-glossary" },
    ...Object.entries(TERMS).flatMap(([word, meaning]) => [el("dt", {}, word), el("dd", {}, meaning)]));
  return fold("Glossary", list);
};
