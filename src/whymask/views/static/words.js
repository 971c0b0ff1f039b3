// The words of a text, or several answers: the evidence of the one pointed at, and of those pinned, each in a colour.
"use strict";

whymask.WordsView = class WordsView {
  /** Scores of a word: [what it is called, class of its bar]. */
  static SCORES = { full_score: ["whole image", "whole"], score: ["only its regions", "only"], blank_score: ["blank image", "blank"] };
  static ROLES = { prior: "the image does not support it", unlikely: "the model finds it unlikely" };

  /**
   * An explanation of kind "masks" from the document. `extra` goes below the heading. Where a model can be asked,
   * `whatIf(number)` opens a mask to be changed.
   */
  constructor(entry, image, extra, whatIf) {
    Object.assign(this, { entry, image, whatIf, pointed: null, pinned: new Map() }); // pinned words, each with its colour
    this.ofText = entry.text !== null;
    const listed = this.ofText ? entry.words : entry.each.map((mask, number) => ({
      text: mask.target.label, role: "content", full_score: mask.full_score, blank_score: mask.blank_score,
      sentence: mask.verdict.sentence, mask: number }));
    this.words = listed.map((word) => this.#word(word));
    this.explained = this.words.filter((word) => word.role !== "function");
    this.#build(extra);
  }

  /** Draw once the view is in the page. */
  start() {
    this.#draw();
  }

  /** A word of the document with its mask, its colour, and what shows it. */
  #word({ mask: number, ...given }) {
    const mask = number === null ? null : this.entry.each[number];
    const { colours } = this.entry;
    const word = { ...given, number, score: mask?.score ?? null, mask, colour: mask ? colours[number % colours.length] : "var(--bad)" };
    if (word.role === "function") return word;
    const { el } = whymask;
    const columns = Object.entries(WordsView.SCORES).map(([name, [, kind]]) => {
      const column = el("i", { class: `wm-column wm-${kind}` });
      if (word[name] === null) column.style.visibility = "hidden";
      else column.style.height = `${100 * word[name]}%`;
      return column;
    });
    const marks = el("span", { class: "wm-columns", "aria-hidden": "true" }, ...columns);
    const button = el("button", { type: "button", class: `wm-word wm-${word.role}`, "aria-pressed": false },
      marks, el("span", {}, word.text));
    button.addEventListener("click", () => this.#pin(word));
    button.addEventListener("pointerenter", () => this.#look(word)); // a finger points as long as it is down
    button.addEventListener("focus", () => button.matches(":focus-visible") && this.#look(word));
    for (const end of ["pointerleave", "blur"]) {
      button.addEventListener(end, () => this.pointed === word && this.#look(null));
    }
    return Object.assign(word, { button, card: this.#card(word) });
  }

  /** What there is to say about a word. */
  #card(word) {
    const { el, two, percent, isolated, bar } = whymask;
    const scores = Object.entries(WordsView.SCORES).filter(([name]) => word[name] !== null).map(([name, [what, kind]]) =>
      el("li", { class: `wm-${kind}` }, what, el("b", {}, two(word[name])), bar(word[name])));
    const { regions, area } = word.mask ?? {};
    const size = regions ? el("small", {}, `${regions.length} of ${this.entry.n} regions, ${percent(area)}`) : null;
    const said = word.mask ? whymask.judgement({ code: word.mask.verdict.code, sentence: word.sentence })
      : el("p", {}, isolated(word.sentence));
    const ask = word.mask && this.whatIf && el("button", { type: "button", class: "wm-ask" }, "What if\u2026");
    if (ask) ask.addEventListener("click", () => this.whatIf(word.number));
    return el("section", { class: `wm-card wm-${word.role}`, hidden: "" },
      el("h2", {}, isolated(word.text), " ", size), said, el("ul", {}, ...scores),
      ask && el("div", { class: "wm-toggles" }, ask));
  }

  #look(word) {
    this.pointed = word;
    this.#draw();
  }

  #pin(word) {
    if (!this.pinned.delete(word)) {
      const used = [...this.pinned.values()];
      const free = this.entry.colours.find((colour) => !used.includes(colour));
      this.pinned.set(word, word.mask && used.includes(word.colour) ? (free ?? word.colour) : word.colour);
    }
    this.#draw();
  }

  #draw() {
    const { pointed, pinned, image, explained } = this;
    const shown = explained.filter((word) => pinned.has(word) || word === pointed);
    const regions = (words) => words.flatMap((word) => word.mask?.regions ?? []);
    const lit = regions(pointed?.mask ? [pointed] : shown); // a word without evidence does not hide that of others
    const kept = whymask.flags(image.n, lit);
    const colour = (word) => pinned.get(word) ?? word.colour;
    const outlines = shown.filter((word) => word.mask).map((word) => [word.mask.regions, colour(word)]);
    image.paint(this.photo, kept, { show: { mask: shown.length > 0 }, outlines });
    for (const word of explained) {
      word.button.setAttribute("aria-pressed", pinned.has(word));
      word.card.hidden = !shown.includes(word);
      for (const element of [word.button, word.card]) element.style.setProperty("--colour", colour(word));
    }
    const latest = pointed ?? [...pinned.keys()].at(-1);
    this.readout.replaceChildren(...(latest ? this.#scores(latest) : [this.#hint()]));
    const names = shown.map((word) => `\u201c${word.text}\u201d${word.mask ? "" : ", which has none"}`).join(", ");
    this.photo.setAttribute("aria-label", shown.length ? `The photo with the evidence for ${names}` : "The photo");
  }

  #build(extra) {
    const { el, isolated, quoted, words, fold } = whymask;
    const { entry } = this;
    const { question } = entry.provenance;
    const says = this.ofText || entry.prediction === null ? null
      : el("p", {}, ...words`The model says ${quoted(entry.prediction)}.`);
    const title = `The evidence for each ${this.ofText ? "word" : "answer"}`;
    this.photo = el("canvas", { class: "wm-canvas", role: "img" });
    this.readout = el("p", { class: "wm-readout" }); // stays in sight beside a long text, where the cards do not
    const label = "The photo and its evidence";
    const photo = el("section", { class: "wm-photo", "aria-label": label }, this.photo, this.readout);
    const cards = el("div", { class: "wm-cards", "aria-live": "polite" }, ...this.explained.map((word) => word.card));
    const stage = el("div", { class: "wm-reading" }, photo,
      el("div", {}, this.#sentence(), this.#legend(), cards));
    stage.style.setProperty("--shape", this.image.photo.naturalWidth / this.image.photo.naturalHeight);
    this.children = [
      el("header", { class: "wm-head" },
        question ? el("p", { class: "wm-question" }, isolated(question)) : null,
        ...whymask.heading(title), says, ...entry.remarks.map((remark) => el("p", {}, isolated(remark))), extra),
      stage,
      el("div", { class: "wm-folds" },
        fold(`Every ${this.ofText ? "word" : "answer"}`, () => this.#table()), ...whymask.origins(entry)),
    ];
    const escape = (event) => {
      if (!stage.isConnected) return document.removeEventListener("keydown", escape);
      if (event.key !== "Escape") return;
      this.pinned.clear();
      this.#look(null);
    };
    document.addEventListener("keydown", escape);
  }

  /** The text, its words as buttons; or the answers. */
  #sentence() {
    const { el } = whymask;
    const { between } = this.entry;
    const parts = this.words.flatMap((word, i) => {
      const rest = this.ofText ? between[i + 1] : " ";
      const close = rest.match(/^\S*/)[0]; // such as a comma, on the line of its word
      const shown = word.button ?? word.text;
      return [close ? el("span", { class: "wm-closed" }, shown, close) : shown, rest.slice(close.length)];
    });
    const label = this.ofText ? "The text" : "The answers";
    return el("div", { class: "wm-sentence", role: "group", "aria-label": label, dir: "auto" }, between[0], ...parts);
  }

  #legend() {
    const { el, key } = whymask;
    const roles = Object.entries(WordsView.ROLES).filter(([role]) => this.words.some((word) => word.role === role));
    return el("div", { class: "wm-legend" }, ...whymask.shades(this.image),
      ...Object.values(WordsView.SCORES).map(([what, kind]) => key(`wm-key-column wm-${kind}`, what)),
      ...roles.map(([role, what]) => el("span", {}, el("span", { class: `wm-sample wm-${role}` }, "word"), ` ${what}`)));
  }

  /** A word and its scores in a line. */
  #scores(word) {
    const { two, isolated } = whymask;
    const scores = Object.entries(WordsView.SCORES).filter(([name]) => word[name] !== null)
      .map(([name, [what]]) => `${what} ${two(word[name])}`);
    return [isolated(word.text), `: ${scores.join(", ")}`];
  }

  #hint() {
    const one = this.ofText ? "a word" : "an answer";
    return matchMedia("(hover: none)").matches ? `Tap ${one} to see its evidence; tap several to compare them.`
      : `Point at ${one} to see its evidence, click it to pin it. Escape unpins all.`;
  }

  #table() {
    const { two, table } = whymask;
    const { label_values: names } = this.entry;
    const rows = this.words.map((word) => {
      const { mask } = word;
      const regions = mask ? mask.regions.map((region) => (names ? names[region] : region)).join(", ") : "\u2013";
      const verdict = mask ? mask.verdict.code.replaceAll("_", " ") : word.role;
      const scores = [word.full_score, word.score, mask?.removed_score ?? null, word.blank_score].map(two);
      return [word.text, verdict, ...scores, regions];
    });
    const what = this.ofText ? "word" : "answer";
    return table([what, "verdict", "whole", "only its regions", "without them", "blank", "regions"], rows);
  }
};

/** Open the what-if of one of several masks, which is shown as if it were the only one; `back()` shows all again. */
whymask.alone = function alone(entry, image, number, { ask, put, back }) {
  const { el, View } = whymask;
  const button = el("button", { type: "button" }, `Back to all ${entry.text === null ? "answers" : "words"}`);
  button.addEventListener("click", back);
  const about = { ...entry, ...entry.each[number], number };
  const view = new View(about, image, el("div", { class: "wm-toggles" }, button), (regions) => ask(about, regions));
  put(view);
  view.whatIf.button.focus({ preventScroll: true });
  view.whatIf.button.click();
};
