// What is known of the scores around a mask or an ordering, as a plot with its legend.
"use strict";

/** The chart of a view: how the score moves with the regions; where it is known at one size only, what it compares with. */
whymask.chart = function chart(view) {
  const { entry, curves, ordered } = view;
  if (curves) return replayed(view);
  if (ordered) return withoutReplay();
  if (entry.order?.length) return prefixes(entry);
  if (Object.keys(entry.frontier).length > 1) return sizes(entry);
  return whymask.el("section", { class: "wm-curves", "aria-label": "Scores" }, whymask.comparison(entry));
};

/** Insertion and deletion; a place in the plot steps the view there. */
function replayed(view) {
  const { two, key, term } = whymask;
  const { entry, curves } = view;
  view.plot = new whymask.Curves(curves, { full: entry.full_score, kept: entry.kept, onStep: (t) => view.step(t) });
  return whymask.plotted("Curves", view.plot, [
    key("wm-key-insertion", term("insertion"), ", ", term("AUC"), ` ${two(curves.insertion_auc)}`),
    key("wm-key-deletion", term("deletion"), ", ", term("AUC"), ` ${two(curves.deletion_auc)}`),
    key("wm-key-whole", term("whole image")),
    entry.kept ? key("wm-key-initial", term("initial mask"), `, ${entry.kept} regions`) : null,
  ]);
}

/** What the search has seen at other sizes of the mask. */
function sizes({ frontier, goal, score, regions, n, full_score: full }) {
  const { two, key, term } = whymask;
  const plot = new whymask.Sizes("The best score seen", frontier, { size: regions.length, score, goal, full });
  return whymask.plotted("Sizes", plot, [
    key("wm-key-insertion", term("best score seen"), ", by the number of regions kept"),
    key("wm-key-chosen", `the mask, ${regions.length} of ${n} regions`),
    goal === null ? null : key("wm-key-goal", term("enough"), `, ${two(goal)}`),
    key("wm-key-whole", term("whole image")),
  ]);
}

/** How the wanted answer's score moves as the regions of a repair's ordering enter the empty image. */
function prefixes({ scores, right, blank_score: blank, score, regions, n, full_score: full, target }) {
  const { key, quoted, words, term } = whymask;
  const wanted = () => quoted(target.label);
  const dotted = (size) => size > 0 && right[size - 1];
  const place = { size: regions.length, score, full, dotted };
  const plot = new whymask.Sizes(`Score of ${wanted().textContent}`, [blank, ...scores], place);
  return whymask.plotted("Prefixes", plot, [
    key("wm-key-insertion", ...words`score of ${wanted()}, by the number of regions kept`),
    key("wm-key-right", "says ", wanted()),
    key("wm-key-chosen", `the mask, ${regions.length} of ${n} regions`),
    key("wm-key-whole", term("whole image")),
  ]);
}

/** A mask's score among those that it is judged by, a bar each. */
whymask.comparison = function comparison(entry) {
  const { el, two, bar, term } = whymask;
  const { fills = {}, flat, shuffled, null: others = {} } = entry.controls ?? {};
  const rows = [
    ["whole image", entry.full_score],
    ["only these regions", entry.score, "wm-only"],
    ["without them", entry.removed_score],
    ["blank image", entry.blank_score],
    ["flat colour", flat, "wm-control"],
    ["shuffled pixels", shuffled, "wm-control"],
    ...Object.entries(fills).map(([name, score]) => [`on ${name}`, score, "wm-control", "on another fill"]),
    ...Object.entries(others).map(([name, score]) => [name, score, "wm-control", "another answer"]),
  ].filter(([, score]) => typeof score === "number");
  const items = rows.map(([name, score, kind = "", about = name]) => el("li", { class: kind },
    el("span", {}, about === name ? term(name) : term(about, name)), bar(score), el("b", {}, two(score))));
  return el("ul", { class: "wm-comparison" }, ...items);
};

function withoutReplay() {
  return whymask.el("p", { class: "wm-note" },
    "This ordering was saved without a replay, so only those scores are known that the search has seen. To get the ",
    "curves, make the report where the model can be loaded.");
}
