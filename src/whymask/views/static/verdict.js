// A verdict at first sight: its sign, its name in a few words, and how much of the score is kept.
"use strict";

/** By code: [sign, name, tone]. */
whymask.VERDICTS = {
  enough: ["\u2713", "Enough", "good"],
  redundant: ["\u2248", "Enough, and so is the rest", "mixed"],
  one_fill: ["!", "Enough on one fill only", "mixed"],
  shape_only: ["!", "Only the outline counts", "mixed"],
  not_above_chance: ["!", "No better than chance", "bad"],
  not_enough: ["\u2715", "Not enough", "bad"],
  blank_suffices: ["\u2715", "A blank image is enough", "bad"],
};

/** The sign of a verdict; what it means is said beside it. */
whymask.sign = function sign(code) {
  const [sign, , tone] = whymask.VERDICTS[code];
  return whymask.el("span", { class: `wm-sign wm-${tone}`, "aria-hidden": "true" }, sign);
};

/** A verdict in a few words, for lists. */
whymask.verdictName = function verdictName({ verdict: code, kind }) {
  if (!code) return null;
  const name = kind === "repair" && code === "enough" ? "Repaired" : whymask.VERDICTS[code][1];
  return whymask.el("span", { class: "wm-verdict-name" }, whymask.sign(code), name);
};

/** The verdict of an explanation: the sentence with its sign, then what is kept. */
whymask.verdict = function verdict(entry) {
  const { el, judgement, kept } = whymask;
  return entry.verdict && el("div", { class: "wm-judged" }, judgement(entry.verdict), kept(entry));
};

/** The sentence of a verdict with its sign. */
whymask.judgement = ({ code, sentence }) =>
  whymask.el("p", { class: "wm-verdict" }, whymask.sign(code), whymask.isolated(sentence));

/** How much of the score is left, where there is a score to speak of. */
whymask.kept = function kept({ kind, share, score, full_score: full, target }) {
  const { el, two, percent, quoted, words } = whymask;
  if (kind === "repair") {
    return el("div", { class: "wm-kept" }, ...words`${quoted(target.label)} goes from ${two(full)} to ${el("strong", {}, two(score))}`);
  }
  if (share === null || share === undefined || full < 0.05) return null;
  if (score > 1.05 * full) { // a share of more than all would say little
    return el("div", { class: "wm-kept" }, "scores ", el("strong", {}, two(score)), ` alone, more than the whole image (${two(full)})`);
  }
  return el("div", { class: "wm-kept" }, "keeps ", el("strong", {}, percent(share)), " of the score");
};
