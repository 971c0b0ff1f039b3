// The viewer: an explanation that can be stepped through. The report and the served page both use it.
"use strict";

/**
 * Show a document: a tab for every explanation, and one for two of them side by side, which comes first if `beside`.
 * `extra(entry)` may add an element below the heading; `entry` is null where there are two. Where a model can be asked,
 * `ask(entry, regions)` returns what it makes of some regions, { score, answers }, later.
 */
whymask.mount = function mount(root, doc, { extra = () => null, ask = null, beside = false } = {}) {
  const images = {};
  for (const [key, picture] of Object.entries(doc.pictures)) images[key] = whymask.ExplainedImage.load(picture);
  const panel = whymask.el("div", { class: "wm-view", id: "wm-panel" });
  const pairs = whymask.comparable(doc);
  const [one, ...rest] = doc.explanations;
  const called = beside ? whymask.distinguished(doc.explanations)
    : rest.length ? doc.explanations.map(({ name }) => name)
    : [one.text ? "Words" : "Answers"]; // the name of the only one would say nothing
  const names = doc.explanations.map((entry, i) => [called[i], shortly(entry)]);
  if (pairs.length > 1) names.push(["Side by side", `two of ${pairs.length}`]);
  const first = beside ? names.length - 1 : 0;
  let wanted = first;
  const show = async (number) => {
    wanted = number;
    const entry = doc.explanations[number];
    if (!entry) {
      const view = new whymask.Comparison(pairs, images, extra(null));
      panel.replaceChildren(...view.children);
      await view.start();
      if (wanted === number) root.dataset.ready = number;
      return;
    }
    const image = await images[entry.picture];
    if (wanted !== number) return; // another tab was chosen meanwhile
    const put = (view) => whymask.put(panel, view);
    const asked = ask && ((regions) => ask(entry, regions));
    const alone = ask && ((mask) => whymask.alone(entry, image, mask, { ask, put, back: () => show(number) }));
    if (entry.kind === "masks") put(new whymask.WordsView(entry, image, extra(entry), alone));
    else put(new whymask.View(entry, image, extra(entry), asked));
    root.dataset.ready = number;
  };
  root.classList.add("wm");
  document.documentElement.classList.remove("wm-clear");
  if (names.length === 1) {
    root.replaceChildren(panel);
  } else {
    panel.setAttribute("role", "tabpanel");
    panel.setAttribute("aria-labelledby", `wm-tab-${first}`);
    const tabs = whymask.tabs(names, first, show);
    root.replaceChildren(tabs, panel);
    tabs.children[first].scrollIntoView({ block: "nearest", inline: "nearest" }); // on a phone not all fit
  }
  return show(first);
};

/** An explanation in a few words, the same of every kind. */
function shortly({ each, curves, prefix, regions, score, n }) {
  if (each) return `${each.length} masks`;
  const [size, alone] = curves ? [prefix, curves.insertion[prefix - 1]] : [regions?.length, score];
  return size === undefined ? "" : `${size} of ${n} regions: ${whymask.two(alone)}`;
}

whymask.View = class View {
  static THUMBNAIL = 240; // width of a mask in small, in pixels

  /** One explanation on its image. */
  constructor(entry, image, extra, ask) {
    Object.assign(this, { entry, image, focus: -1, timer: null });
    this.ordered = entry.kind === "ordering";
    this.masks = this.ordered ? [] : [entry, ...entry.alternatives];
    this.curves = entry.curves ?? null;
    this.sets = new whymask.ScoredSets(entry, image.n);
    this.layers = new whymask.Layers(entry, this.sets, () => this.#paint());
    this.#take(this.ordered ? entry.order : entry.regions, this.ordered ? entry.prefix : entry.regions.length);
    this.chosen = 0;
    this.whatIf = new whymask.WhatIf(entry, this.sets, {
      ask,
      evidence: () => this.sets.of(this.order.slice(0, this.t)),
      draw: (chosen, shown) => this.#draw(chosen, shown),
      opened: (brush) => {
        this.regions.brushing = brush;
        this.layers.heated(null); // what is on and off is to be seen
        if (!brush) this.step(this.t);
      },
    });
    this.#build(extra);
  }

  /** Look at these regions, the first t of them chosen. */
  #take(order, t) {
    this.order = order;
    this.rank = new Map(order.map((region, place) => [region, place]));
    this.t = t;
  }

  /** Draw once the view is in the page. */
  start() {
    this.step(this.t);
  }

  /** Keep the first t regions. */
  step(t) {
    const { image, order } = this;
    const n = this.ordered ? order.length : image.n;
    this.t = Math.min(Math.max(t, 0), order.length);
    const kept = this.sets.of(order.slice(0, this.t));
    if (this.whatIf.on) this.whatIf.choose(kept);
    else this.#draw(kept);
    const [score, removed] = this.scores(this.t);
    const area = image.area(kept);
    const { percent, two } = whymask;
    this.plot?.mark(this.t);
    if (this.slider) {
      this.claim.replaceChildren(...this.#claim());
      this.photo.setAttribute("aria-label", this.#alternative());
      this.slider.value = this.t;
      this.count.textContent = `${this.t} of ${n} regions`;
      const scored = score === null ? "" : `: scores ${two(score)}, without them ${two(removed)}`;
      this.slider.setAttribute("aria-valuetext", `${this.t} of ${n} regions, ${percent(area)} of the area${scored}`);
    }
  }

  /** Draw the chosen regions alone and the rest alone; the photo has what is `shown`. */
  #draw(chosen, shown = chosen) {
    const { image, entry, sets } = this;
    const { percent, words, text, said } = whymask;
    this.kept = shown;
    const count = chosen.reduce((sum, flag) => sum + flag, 0);
    const these = count === 1 ? "this one" : `these ${count}`;
    const both = [[this.only, chosen, `Only ${these}`], [this.rest, whymask.flipped(chosen), `All but ${these}`]];
    for (const [figure, kept, title] of both) {
      const { score = null, answers = [] } = sets.get(kept) ?? {};
      const answer = this.whatIf.on && said(answers);
      const area = `${percent(image.area(kept))} of the area`;
      image.compose(figure.canvas, kept);
      figure.tell(title, answer ? text(words`${area}, says ${answer}`) : area, score, entry.full_score);
    }
    if (this.focus >= 0) this.readout.textContent = this.describe(this.focus);
    this.#paint();
  }

  /** [score of the image with only the first t regions, score without them], null where it is not known. */
  scores(t) {
    const kept = this.sets.of(this.order.slice(0, t));
    return [kept, whymask.flipped(kept)].map((set) => this.sets.get(set)?.score ?? null);
  }

  /** What there is to say about a region. */
  describe(region) {
    const { entry, curves, rank } = this;
    const { percent, signed, two } = whymask;
    const name = entry.label_values ? entry.label_values[region] : region;
    const words = [`Region ${name}`];
    const t = rank.get(region);
    if (this.ordered) words.push(`rank ${t + 1} of ${this.order.length}`);
    else if (this.masks.length > 1) words.push(this.holding(region).map((i) => `in mask ${i}`).join(", ") || "in no mask");
    else if (t === undefined) words.push("not in the mask");
    else words.push(entry.ordered ? `rank ${t + 1} in the mask` : "in the mask");
    words.push(`${percent(this.image.areas[region])} of the area`);
    if (curves) words.push(`entering ${signed(this.gain(t)[0])}, leaving ${signed(this.gain(t)[1])}`);
    if (this.layers.heat?.tell) words.push(this.layers.heat.tell(region));
    const switched = curves && !this.whatIf.on ? null : this.sets.switched(this.kept, region);
    if (switched) words.push(`${two(switched.score)} ${this.kept[region] ? "without it" : "with it"}`);
    return words.join(" \u00b7 ");
  }

  /** The numbers, from 1, of the masks that hold a region. */
  holding(region) {
    return this.masks.flatMap((mask, i) => (mask.regions.includes(region) ? [i + 1] : []));
  }

  /** How the scores change when the region of rank t enters the empty image, and leaves the full one. */
  gain(t) {
    const [before, after] = [this.scores(t), this.scores(t + 1)];
    return [after[0] - before[0], after[1] - before[1]];
  }

  #paint() {
    this.image.paint(this.photo, this.kept, { ...this.layers.shown, focus: this.focus });
    this.rows?.show();
  }

  #build(extra) {
    const { el } = whymask;
    const { entry } = this;
    this.photo = el("canvas", { class: "wm-canvas", role: "img", "aria-label": this.#alternative() });
    this.readout = el("p", { class: "wm-readout" }, this.#hint());
    this.spoken = el("p", { class: "wm-unseen", role: "status" });
    this.regions = new whymask.Regions(this.photo, this.image, {
      first: this.order[0] ?? 0,
      look: (region, spoken) => this.look(region, spoken),
      pick: (region) => this.ordered && this.step(this.rank.get(region) + 1) });
    this.regions.element.addEventListener("keydown", (event) => {
      if (this.whatIf.on && this.whatIf.key(event)) event.preventDefault();
    });
    this.layers.element.append(this.whatIf.button);
    this.only = whymask.scored("What is left when only the chosen regions are kept");
    this.rest = whymask.scored("What is left when the chosen regions are removed");
    this.claim = el("p", {}, ...this.#claim());
    this.verdict = whymask.verdict(entry);
    this.chart = whymask.chart(this);
    const { question, against } = entry.provenance;
    const { isolated, words } = whymask;
    const heading = entry.kind === "repair" ? words`${isolated(entry.given)} \u2192 ${isolated(entry.answer)}`
      : against ? words`${isolated(entry.target.label)}, not ${isolated(against)}`
      : [isolated(entry.target.label)];
    this.children = [
      el("header", { class: "wm-head" },
        question ? el("p", { class: "wm-question" }, isolated(question)) : null,
        ...whymask.heading(...heading),
        this.verdict, this.claim, extra, this.masks.length > 1 ? this.#choices() : null),
      this.#stage(),
      this.chart,
      el("div", { class: "wm-folds" }, ...whymask.folds(this)),
    ].filter(Boolean);
  }

  /** The photo and what the model saw, side by side at one height where there is room. */
  #stage() {
    const { el } = whymask;
    const { photo, width, height } = this.image;
    const label = "The photo and its evidence";
    const stage = el("div", { class: "wm-stage" },
      el("section", { class: "wm-photo", "aria-label": label }, this.regions.element, this.layers.element,
        el("div", { class: "wm-legend" }, ...whymask.shades(this.image)), this.readout, this.spoken, this.whatIf.element),
      this.ordered ? this.#player() : null,
      el("div", { class: "wm-pair" }, this.only.element, this.rest.element));
    const shapes = [photo.naturalWidth / photo.naturalHeight, width / height, width / height];
    stage.style.setProperty("--columns", shapes.map((shape) => `minmax(0, ${shape}fr)`).join(" "));
    stage.style.setProperty("--shapes", shapes[0] + shapes[1] + shapes[2]);
    return stage;
  }

  #alternative() {
    return `The photo. ${whymask.text(this.#claim())}`;
  }

  /** What was found, as texts and elements. */
  #claim() {
    const { entry, chosen } = this;
    const { two, percent, quoted, words } = whymask;
    const area = percent(this.order.slice(0, this.t).reduce((sum, region) => sum + this.image.areas[region], 0));
    const [score] = this.scores(this.t);
    const some = `${this.t} of ${entry.n} regions`;
    const sentences = [this.#answer()];
    if (entry.kind === "repair") {
      const said = words`${entry.answer === entry.given ? "still " : ""}says ${quoted(entry.answer)}`;
      const wanted = words`${quoted(entry.target.label)} scores ${two(score)}`;
      const blank = `and ${two(entry.blank_score)} on a blank image`;
      sentences.push(words`Shown only ${some}, ${area} of what it sees, it ${said}: ${wanted}, ${blank}.`);
    } else if (score === null) sentences.push([`All ${entry.n} regions, most important first.`]);
    else {
      const first = this.t === 1 ? `The first of ${entry.n} regions` : `The first ${some}`;
      const verb = this.t === 1 ? "scores" : "score";
      sentences.push([this.t === 0 ? `A blank image scores ${two(score)}.`
        : `${this.ordered ? first : some}, ${area} of what it sees, ${verb} ${two(score)} alone.`]);
    }
    const remarks = chosen === 0 ? entry.remarks.map((remark) => [whymask.isolated(remark)]) : [];
    return [...sentences, ...remarks].flatMap((sentence, i) => [i ? " " : "", ...sentence]);
  }

  /** What the model says of the whole image. */
  #answer() {
    const { entry } = this;
    const { two, quoted, named, words } = whymask;
    const { label } = entry.target;
    if (label === "the score") return [`The score of the whole image is ${two(entry.full_score)}.`];
    const { against } = entry.provenance;
    if (against) {
      const said = entry.prediction === null ? [] : words`The model says ${quoted(entry.prediction)}. `;
      return [...said, ...words`On the whole image ${named(label)} scores ${two(entry.full_score)} more than ${quoted(against)}.`];
    }
    const whole = `scores ${two(entry.full_score)} on the whole image.`;
    const says = entry.kind === "repair" ? words`${quoted(entry.given)} (${two(entry.given_score)})`
      : entry.prediction === null ? null : (entry.prediction === label ? named : quoted)(entry.prediction);
    if (!says) return words`${named(label)} ${whole}`;
    const scores = entry.prediction === label ? `, which ${whole}` : words`; ${named(label)} ${whole}`;
    return words`The model says ${says}${scores}`;
  }

  #hint() {
    const what = this.ordered || this.entry.ordered ? "its rank" : "whether it is in the mask";
    return `${matchMedia("(hover: none)").matches ? "Tap" : "Point at"} a region to see ${what}.`;
  }

  /** Light a region (-1: none) on the photo and in the table; `spoken` to who cannot see it. */
  look(region, spoken = false) {
    const changed = region !== this.focus;
    this.focus = region;
    this.readout.textContent = region >= 0 ? this.describe(region) : this.#hint();
    if (spoken) this.spoken.textContent = this.readout.textContent;
    if (!changed) return;
    this.rows?.light(region);
    this.#paint();
  }

  /** One of several masks, by a button each. */
  #choices() {
    const { el, two } = whymask;
    const buttons = this.masks.map((mask, number) => {
      const button = el("button", { type: "button", "aria-pressed": number === 0 }, this.#thumbnail(mask),
        `mask ${number + 1}: ${two(mask.score)}`);
      button.addEventListener("click", () => {
        this.chosen = number;
        for (const part of [this.verdict, this.chart]) if (part) part.hidden = number > 0; // about the first mask
        buttons.forEach((one, i) => one.setAttribute("aria-pressed", i === number));
        this.#take(mask.regions, mask.regions.length);
        this.claim.replaceChildren(...this.#claim());
        this.photo.setAttribute("aria-label", this.#alternative());
        this.step(this.t);
      });
      return button;
    });
    return el("div", { class: "wm-toggles wm-masks", role: "group", "aria-label": "Masks" }, ...buttons);
  }

  /** A mask on the photo, in small. */
  #thumbnail({ regions }) {
    const [large, small] = [whymask.el("canvas"), whymask.el("canvas", { class: "wm-canvas", "aria-hidden": "true" })];
    this.image.paint(large, this.sets.of(regions), { show: { mask: true, outline: true } });
    [small.width, small.height] = [View.THUMBNAIL, Math.round((View.THUMBNAIL * large.height) / large.width)];
    small.getContext("2d").drawImage(large, 0, 0, small.width, small.height);
    return small;
  }

  #player() {
    const { el } = whymask;
    const last = this.order.length;
    const label = "Regions kept, most important first";
    this.slider = el("input", { type: "range", min: 0, max: last, step: 1, value: this.t, "aria-label": label });
    this.slider.addEventListener("input", () => {
      this.#pause();
      this.step(Number(this.slider.value));
    });
    this.count = el("output", { class: "wm-count", "aria-live": "off" });
    this.button = el("button", { type: "button", class: "wm-play", "aria-label": "Play" }, "\u25b6\ufe0e");
    this.button.addEventListener("click", () => (this.timer ? this.#pause() : this.#play()));
    const bar = el("div", { class: "wm-player" }, this.button, this.slider, this.count);
    // Arrow keys step from anywhere on the page that does not use them itself.
    const keys = (event) => {
      if (!bar.isConnected) return document.removeEventListener("keydown", keys);
      const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!move || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.target.closest("input, select, textarea, [role=tab], [role=application], [contenteditable], .wm-scroll")) return;
      event.preventDefault();
      this.#pause();
      this.slider.focus({ preventScroll: true });
      this.step(this.t + move);
    };
    document.addEventListener("keydown", keys);
    return bar;
  }

  #play() {
    if (this.t === this.order.length) this.step(0);
    this.button.textContent = "\u275a\u275a";
    this.button.setAttribute("aria-label", "Pause");
    this.timer = setInterval(() => {
      if (!this.button.isConnected || this.t === this.order.length) return this.#pause();
      this.step(this.t + 1);
    }, 140);
  }

  #pause() {
    clearInterval(this.timer);
    this.timer = null;
    this.button.textContent = "\u25b6\ufe0e";
    this.button.setAttribute("aria-label", "Play");
  }
};
