// Small parts of the viewer: elements, numbers, tabs, scored images and the tables below.
"use strict";

/** An element; `null` children are left out. */
whymask.el = function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
};

/** A button that is pressed or not; `act(pressed)` is called when that changes. */
whymask.toggle = function toggle(name, pressed, act) {
  const button = whymask.el("button", { type: "button", "aria-pressed": pressed }, name);
  button.addEventListener("click", () => {
    const now = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", now);
    act(now);
  });
  return button;
};

/** The direction [x, y] of an arrow key that is pressed by itself; null for anything else. */
whymask.arrow = function arrow({ key, ctrlKey, metaKey, altKey }) {
  const directions = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  return ctrlKey || metaKey || altKey ? null : directions[key] ?? null;
};

whymask.two = (score) => (score === null ? "\u2013" : score.toFixed(2));
whymask.signed = (value) => (value < -0.0005 ? "\u2212" : "+") + Math.abs(value).toFixed(3);
/** A label, question or answer: text of any direction, which leaves the direction of what follows alone. */
whymask.isolated = (text) => whymask.el("bdi", {}, text);
whymask.quoted = (text) => whymask.isolated(`\u201c${text}\u201d`);
/** The answer that is explained, in a sentence below the heading that has all of it. */
whymask.named = (label) => whymask.quoted(label.length > 60 ? `${label.slice(0, 50).trimEnd()}\u2026` : label);
/** A template with elements in it, as a list of texts and elements; and such a list as text. */
whymask.words = (texts, ...values) => texts.flatMap((text, i) => [text, ...[values[i] ?? ""].flat()]);
whymask.text = (words) => words.map((word) => word.textContent ?? word).join("");
whymask.percent = (share) => `${(100 * share).toFixed(share > 0 && share < 0.0995 ? 1 : 0)}%`;

/** The heading; one that would push the photo off the screen is smaller, and shows its first lines until it is unfolded. */
whymask.heading = function heading(...parts) {
  const { el } = whymask;
  const title = el("h1", { tabindex: -1 }, ...parts);
  const { length } = title.textContent;
  title.classList.toggle("wm-long-title", length > 60);
  if (length <= 160) return [title];
  title.classList.add("wm-clamped");
  const button = el("button", { type: "button", class: "wm-more", "aria-expanded": false }, "Show all of it");
  button.addEventListener("click", () => {
    const folded = title.classList.toggle("wm-clamped");
    button.setAttribute("aria-expanded", !folded);
    button.textContent = folded ? "Show all of it" : "Show less";
  });
  return [title, button];
};

/** A tab list as screen readers know it: arrow keys move, the chosen tab is in the tab order. */
whymask.tabs = function tabs(names, first, show) {
  const { el } = whymask;
  const choose = (number, focus) => {
    buttons.forEach((button, i) => {
      button.setAttribute("aria-selected", i === number);
      button.tabIndex = i === number ? 0 : -1;
    });
    if (focus) buttons[number].focus();
    document.getElementById("wm-panel")?.setAttribute("aria-labelledby", `wm-tab-${number}`);
    show(number);
  };
  const buttons = names.map(([name, note], number) => {
    const button = el("button", { type: "button", role: "tab", id: `wm-tab-${number}`, "aria-controls": "wm-panel" },
      el("bdi", {}, name), el("small", {}, note));
    button.setAttribute("aria-selected", number === first);
    button.tabIndex = number === first ? 0 : -1;
    button.addEventListener("click", () => choose(number, false));
    button.addEventListener("keydown", (event) => {
      const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (move) choose((number + move + buttons.length) % buttons.length, true);
      else if (event.key === "Home" || event.key === "End") choose(event.key === "Home" ? 0 : buttons.length - 1, true);
      else return;
      event.preventDefault();
    });
    return button;
  });
  return el("div", { class: "wm-tabs", role: "tablist", "aria-label": "Explanations" }, ...buttons);
};

/** A bar from 0 to 1, with a mark at the score of the whole image where that is given. */
whymask.bar = function bar(score, whole = null) {
  const inner = whymask.el("span", { class: "wm-bar-fill" });
  inner.style.width = `${100 * (score ?? 0)}%`;
  const mark = whole === null ? null : whymask.el("span", { class: "wm-bar-mark" });
  if (mark) mark.style.left = `${100 * whole}%`;
  return whymask.el("span", { class: "wm-bar", "aria-hidden": "true" }, inner, mark);
};

/** An image as the model saw it, with its score. */
whymask.scored = function scored(label) {
  const { el, two } = whymask;
  const canvas = el("canvas", { class: "wm-canvas", role: "img", "aria-label": label });
  const title = el("span", { class: "wm-title" });
  const note = el("span", { class: "wm-small" });
  const number = el("strong", { class: "wm-score" });
  const meter = el("span", { class: "wm-meter" });
  const element = el("figure", { class: "wm-scored" }, canvas,
    el("figcaption", {}, el("span", {}, title, note), number, meter));
  return {
    element,
    canvas,
    tell(what, detail, score, whole) {
      title.textContent = what;
      note.textContent = detail;
      number.textContent = two(score);
      meter.replaceChildren(whymask.bar(score, whole));
      canvas.setAttribute("aria-label", `${label}: ${detail}, score ${score === null ? "not known" : two(score)}`);
    },
  };
};

/** Show a view in place of what is there. */
whymask.put = function put(panel, view) {
  panel.replaceChildren(...view.children);
  view.start();
};

/** A key of a legend. */
whymask.key = (name, ...words) => whymask.el("span", { class: `wm-key ${name}` }, ...words);

/** A plot below its legend. */
whymask.plotted = function plotted(label, plot, keys) {
  const { el } = whymask;
  return el("section", { class: "wm-curves", "aria-label": label }, el("div", { class: "wm-legend" }, ...keys), plot.element);
};

/** Keys of what a painted photo shows besides the evidence. */
whymask.shades = function shades(image) {
  const { key, term } = whymask;
  const unseen = image.whole ? null : key("wm-key-unseen", term("not seen by the model"));
  return [key("wm-key-dimmed", term("dimmed")), unseen];
};

/** The tables below an explanation, folded. */
whymask.folds = function folds(view) {
  const { entry, curves } = view;
  const { table, fold } = whymask;
  const measures = curves ? ["insertion_auc", "deletion_auc", "at@30", "at@50", "high", "best@30", "best@50"] : [];
  const own = ["full_score", "blank_score", ...(view.ordered ? [] : ["score", "removed_score", "area", "goal"])];
  const others = view.masks.slice(1).flatMap(({ score, removed_score: removed }, i) =>
    [[`score, mask ${i + 2}`, score], [`removed_score, mask ${i + 2}`, removed]]);
  const { kept, ...scores } = entry.controls ?? {};
  const rows = (values, prefix) => Object.entries(values ?? {}).flatMap(([name, value]) =>
    typeof value !== "object" ? [[`${prefix}, ${name}`, value]]
      : Object.entries(value).map(([what, one]) =>
        [`${prefix === "control" ? "" : `${prefix}, `}${name === "null" ? "other answer" : "fill"}, ${what}`, one]));
  const controls = [...rows(scores, "control"), ...rows(kept, "answer kept")];
  const all = [...measures.map((name) => [name, curves[name]]), ...own.map((name) => [name, entry[name]]), ...controls,
    ...others];
  const shown = (value) => typeof value === "number" ? value.toFixed(4) : value ? "yes" : "no";
  const rounded = all.filter(([, value]) => value !== null).map(([name, value]) => [name, shown(value)]);
  const held = view.ordered ? "Every region" : `Regions of the mask${view.masks.length > 1 ? "s" : ""}`;
  return [
    fold("Numbers", table(["measure", "value"], rounded)),
    fold(held, () => whymask.regionTable(view)),
    ...whymask.origins(entry),
  ];
};

/** What a result cost and how to get it again, folded. */
whymask.origins = function origins(entry) {
  const { el, table, fold } = whymask;
  const image = { suff: "kept", necc: "removed" };
  const stages = Object.entries(entry.ledger.stages).flatMap(([stage, sides]) =>
    Object.entries(sides).map(([side, { mec, nominal }]) => [stage, image[side], mec, nominal]));
  const sum = ["search, total", "", entry.ledger.mec, entry.ledger.nominal];
  const replayed = entry.curves ? [["replay", "", entry.curves.forwards, ""]] : [];
  const cost = table(["stage", "image", "forwards", "without a cache"], [...stages, sum, ...replayed]);
  const seconds = entry.provenance.seconds;
  const time = seconds ? el("p", { class: "wm-small" }, `${seconds.toFixed(1)} s for the search.`) : null;
  return [
    fold("Cost", cost, time),
    fold("Settings to reproduce this", table(["setting", "value"], whymask.flat(entry.provenance))),
    whymask.glossary(),
  ];
};

whymask.regionTable = function regionTable(view) {
  const { entry, curves, masks } = view;
  const { table, percent, signed } = whymask;
  const order = view.ordered ? entry.order : [...new Set(masks.flatMap((mask) => mask.regions))];
  const ranked = view.ordered || (entry.ordered && masks.length === 1);
  const columns = [
    ["rank", ranked && ((region, t) => t + 1)],
    ["region", (region) => (entry.label_values ? entry.label_values[region] : region)],
    ["area", (region) => percent(view.image.areas[region])],
    ["masks", masks.length > 1 && ((region) => view.holding(region).join(", "))],
    ["entering", curves && ((region, t) => signed(view.gain(t)[0]))],
    ["leaving", curves && ((region, t) => signed(view.gain(t)[1]))],
  ].filter(([, value]) => value);
  const rows = order.map((region, t) => columns.map(([, value]) => value(region, t)));
  const element = table(columns.map(([name]) => name), rows);
  view.rows = new whymask.Rows(element.tBodies[0], order, view);
  return whymask.el("div", { class: "wm-split" }, element, view.rows.preview);
};

/** A folded section; a function as content is called when it is first opened. */
whymask.fold = function fold(title, content, after = null) {
  const { el } = whymask;
  const body = el("div", { class: "wm-scroll", tabindex: 0, role: "region", "aria-label": title });
  const details = el("details", {}, el("summary", {}, title), body, after);
  if (typeof content === "function") details.addEventListener("toggle", () => body.append(content()), { once: true });
  else body.append(content);
  return details;
};

whymask.table = function table(head, rows) {
  const { el } = whymask;
  // Only what is too long for a column may break anywhere: a word is read in one piece.
  const cell = (text, i) => el("td", text.length > 24 ? { class: "wm-long" } : {}, i ? text : whymask.term(text));
  const row = (cells) => el("tr", {}, ...cells.map((one, i) => cell(String(one), i)));
  const titles = head.map((title) => el("th", { scope: "col" }, whymask.term(title)));
  return el("table", {}, el("thead", {}, el("tr", {}, ...titles)), el("tbody", {}, ...rows.map(row)));
};

/** Nested settings as [name, value] rows. */
whymask.flat = function flat(settings, prefix = "") {
  return Object.entries(settings).flatMap(([name, value]) =>
    value !== null && typeof value === "object" && !Array.isArray(value)
      ? whymask.flat(value, `${prefix}${name}.`)
      : [[prefix + name, value === null ? "\u2013" : Array.isArray(value) ? value.join(", ") : value]]);
};
