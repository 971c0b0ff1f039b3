// Two explanations side by side, or one over the other with a wipe: two answers, methods, models or photos.
"use strict";

/** Everything of a document that can be put beside something else: masks, orderings, and the masks of several answers. */
whymask.comparable = function comparable({ explanations }) {
  const single = explanations.flatMap((entry) => entry.kind !== "masks" ? [entry] : entry.each.map((mask, number) => {
    const word = entry.words.find((one) => one.mask === number);
    return { ...entry, ...mask, title: word?.text ?? mask.target.label };
  }));
  const names = whymask.distinguished(single);
  return single.map((entry, i) => ({ ...entry, name: names[i] }));
};

/** A name for each explanation: what differs of their answers, names and models; else a number. */
whymask.distinguished = function distinguished(entries) {
  const parts = [({ title }) => title, ({ name }) => name, ({ provenance }) => provenance.model]
    .filter((part) => new Set(entries.map(part)).size > 1);
  const names = entries.map((entry) => parts.map((part) => part(entry)).filter(Boolean).join(", "));
  return names.map((name, i) => new Set(names).size === names.length ? name : `${name} (${i + 1})`.trim());
};

/** One document of several. */
whymask.merged = (docs) => ({
  pictures: Object.assign({}, ...docs.map((doc) => doc.pictures)),
  explanations: docs.flatMap((doc) => doc.explanations),
});

whymask.Comparison = class Comparison {
  /** `entries` of `comparable`, their `images` as promises by key; the first two are shown. */
  constructor(entries, images, extra = null) {
    Object.assign(this, { entries, images, wiping: false, at: null });
    this.sides = [0, 1].map((number) => this.#side(number));
    this.#build(extra);
  }

  /** Draw once the view is in the page; resolves when everything is drawn. */
  start() {
    return Promise.all(this.sides.map((side) => this.#choose(side, side.number)));
  }

  /** One of the two: its choice, photo and scores. */
  #side(number) {
    const { el } = whymask;
    const name = ["left", "right"][number];
    const select = el("select", { "aria-label": `Shown on the ${name}` },
      ...this.entries.map((entry, i) => new Option(entry.name, i, false, i === number)));
    const canvas = el("canvas", { class: "wm-canvas" });
    const cursor = el("i", { class: "wm-cursor", hidden: "" });
    const label = `The photo on the ${name}; arrow keys move the cursor`;
    const frame = el("div", { class: "wm-frame", role: "application", tabindex: 0, "aria-label": label }, canvas, cursor);
    const readout = el("p", { class: "wm-readout", "aria-live": "polite" });
    const about = el("div", { class: "wm-about" });
    const side = { number, select, canvas, cursor, frame, readout, about, focus: -1 };
    side.element = el("section", { class: "wm-side", "aria-label": name }, select, frame, readout, about);
    select.addEventListener("change", () => this.#choose(side, Number(select.value)));
    frame.addEventListener("pointermove", (event) => this.#point(side, event));
    frame.addEventListener("pointerdown", (event) => this.#point(side, event));
    // A finger leaves when it is lifted: what it points at stays.
    frame.addEventListener("pointerleave", ({ pointerType }) => pointerType !== "touch" && this.#look(side, null));
    frame.addEventListener("keydown", (event) => this.#steer(side, event));
    frame.addEventListener("blur", ({ relatedTarget: next }) => {
      if (!this.sides.some((one) => one.frame === next)) this.#look(side, null);
    });
    return side;
  }

  /** Show an explanation on one side. */
  async #choose(side, number) {
    const entry = this.entries[number];
    side.wanted = number;
    const image = await this.images[entry.picture];
    if (side.wanted !== number) return; // another one was chosen meanwhile
    const order = entry.kind === "ordering" ? entry.order : entry.regions;
    Object.assign(side, { entry, image, order, t: entry.kind === "ordering" ? entry.prefix : order.length, focus: -1 });
    if (this.sides.every((one) => one.image)) this.#update();
  }

  /** Draw both sides and what they have in common. */
  #update() {
    const [left, right] = this.sides;
    const shape = ({ image }) => image.photo.naturalWidth / image.photo.naturalHeight;
    this.shared = left.image.photo.src === right.image.photo.src;
    const fits = Math.abs(shape(left) / shape(right) - 1) < 0.01;
    this.pair.style.setProperty("--shape", shape(left));
    this.buttons[1].disabled = !fits;
    this.#arrange(this.wiping && fits);
    const ordered = this.sides.filter((side) => side.entry.kind === "ordering");
    this.player.hidden = !ordered.length;
    this.slider.max = Math.max(0, ...ordered.map((side) => side.order.length));
    this.slider.value = Math.max(0, ...ordered.map((side) => side.t));
    for (const side of this.sides) this.#draw(side);
    this.#say();
  }

  /** Of orderings, keep the first t regions. */
  #step(t) {
    for (const side of this.sides.filter(({ entry }) => entry.kind === "ordering")) {
      side.t = Math.min(t, side.order.length);
      this.#draw(side);
    }
    this.#say();
  }

  #draw(side) {
    const { entry, image } = side;
    side.kept = whymask.flags(image.n, side.order.slice(0, side.t));
    this.#paint(side);
    side.about.replaceChildren(...about(side));
    this.#read(side);
  }

  #paint({ image, canvas, kept, focus }) {
    image.paint(canvas, kept, { show: { mask: true, outline: true }, focus });
  }

  /** What the two have in common. */
  #say() {
    const { percent } = whymask;
    const [left, right] = this.sides;
    this.count.textContent = this.sides.filter(({ entry }) => entry.kind === "ordering")
      .map((side) => `${side.t} of ${side.order.length} regions`).join(", ");
    if (!this.shared) {
      const why = this.buttons[1].disabled ? " of different shapes, so one cannot be wiped over the other" : "";
      this.common.textContent = `They show different photos${why}.`;
      return;
    }
    const share = overlap(left, right);
    const same = left.image === right.image ? [...left.kept].filter((flag, region) => flag && right.kept[region]).length : null;
    const regions = same === null ? "" : `${same} region${same === 1 ? "" : "s"}, `;
    this.common.textContent = `They share ${regions}${percent(share)} of the area that either shows.`;
  }

  #point(side, event) {
    const box = side.canvas.getBoundingClientRect();
    const share = (value) => Math.min(Math.max(value, 0), 0.9999);
    const at = [share((event.clientX - box.left) / box.width), share((event.clientY - box.top) / box.height)];
    if (this.wiping && event.buttons) this.#wipe(Math.round(100 * at[0]));
    this.#look(side, at);
  }

  /** Move the cursor by the arrow keys. */
  #steer(side, event) {
    if (event.key === "Escape") this.#look(side, null);
    const move = whymask.arrow(event);
    if (!move) return;
    event.preventDefault();
    const [x, y] = move;
    const [column, row] = this.at ?? [0.5, 0.5];
    const share = (value) => Math.min(Math.max(value, 0), 0.9999);
    this.#look(side, [share(column + 0.03 * x), share(row + 0.03 * y)]);
  }

  /** Point at a place of the photo, on both sides where it is the same photo. */
  #look(side, at) {
    this.at = at;
    for (const one of this.shared ? this.sides : [side]) {
      const focus = at ? one.image.regionAt(...at) : -1;
      one.cursor.hidden = !at;
      if (at) Object.assign(one.cursor.style, { left: `${100 * at[0]}%`, top: `${100 * at[1]}%` });
      if (focus === one.focus) continue;
      one.focus = focus;
      this.#paint(one);
      this.#read(one);
    }
  }

  /** Say what lies under the cursor. */
  #read(side) {
    const { entry, image, order, kept, focus, readout } = side;
    const { percent } = whymask;
    if (focus < 0) {
      readout.textContent = matchMedia("(hover: none)").matches ? "Tap the photo to see its regions." : "Point at the photo to see its regions.";
      return;
    }
    const rank = entry.kind === "ordering" || entry.ordered ? order.indexOf(focus) + 1 : 0;
    const words = [`Region ${entry.label_values?.[focus] ?? focus}`, kept[focus] ? "in the evidence" : "not in the evidence",
      ...(rank ? [`rank ${rank}`] : []), `${percent(image.areas[focus])} of the area`];
    readout.textContent = words.join(" \u00b7 ");
  }

  #build(extra) {
    const { el } = whymask;
    this.common = el("p", {});
    this.buttons = ["Next to each other", "Wipe"].map((name, number) => {
      const button = el("button", { type: "button", "aria-pressed": number === 0 }, name);
      button.addEventListener("click", () => this.#arrange(number === 1));
      return button;
    });
    this.edge = el("input", { type: "range", class: "wm-edge", min: 0, max: 100, value: 50, "aria-label": "Position of the divider" });
    this.edge.addEventListener("input", () => this.#wipe(Number(this.edge.value)));
    this.slider = el("input", { type: "range", min: 0, "aria-label": "Regions kept, most important first" });
    this.slider.addEventListener("input", () => this.#step(Number(this.slider.value)));
    this.count = el("output", { class: "wm-count", "aria-live": "off" });
    this.player = el("div", { class: "wm-player" }, this.slider, this.count);
    this.pair = el("div", { class: "wm-beside" }, ...this.sides.map((side) => side.element), this.player);
    this.children = [
      el("header", { class: "wm-head" }, el("h1", { tabindex: -1 }, "Side by side"), this.common, extra,
        el("div", { class: "wm-toggles", role: "group", "aria-label": "Arrangement" }, ...this.buttons)),
      this.pair,
      el("div", { class: "wm-folds" }, whymask.glossary()),
    ];
  }

  /** Next to each other, or the left photo over the right one. */
  #arrange(wiping) {
    const [left, right] = this.sides;
    this.wiping = wiping;
    this.buttons.forEach((button, i) => button.setAttribute("aria-pressed", (i === 1) === wiping));
    this.pair.classList.toggle("wm-wiping", wiping);
    if (wiping) {
      right.frame.insertBefore(left.canvas, right.cursor);
      right.frame.after(this.edge);
      this.#wipe(Number(this.edge.value));
    } else {
      left.frame.prepend(left.canvas);
      this.edge.remove();
    }
  }

  /** Show the left photo up to this percentage of the width. */
  #wipe(edge) {
    this.edge.value = edge;
    this.edge.setAttribute("aria-valuetext", `${edge}% of the width`);
    this.pair.style.setProperty("--edge", `${edge}%`);
  }
};

/** The answer of a side, what it is from, its verdict, and its scores. */
function about({ entry, t, order }) {
  const { el, isolated, comparison } = whymask;
  const { curves, provenance } = entry;
  const [score, removed] = entry.kind !== "ordering" ? [entry.score, entry.removed_score]
    : t === 0 ? [entry.blank_score, entry.full_score] : t === order.length ? [entry.full_score, entry.blank_score]
    : curves ? [curves.insertion[t - 1], curves.deletion[t - 1]] : [];
  const from = [provenance.method, provenance.model, provenance.question].filter(Boolean);
  return [
    el("h2", {}, isolated(entry.title)),
    el("p", { class: "wm-small" }, ...from.flatMap((one, i) => [i ? ", " : "", isolated(one)])),
    entry.verdict ? whymask.judgement(entry.verdict) : el("p", {}, `The first ${t} of ${order.length} regions.`),
    comparison({ ...entry, score, removed_score: removed }),
  ];
}

/** Of the places that either side shows as evidence, the share that both show. */
function overlap(left, right) {
  const side = 160;
  let [both, either] = [0, 0];
  for (let row = 0; row < side; row++) {
    for (let column = 0; column < side; column++) {
      const [one, other] = [left, right].map(({ image, kept }) =>
        kept[image.regionAt((column + 0.5) / side, (row + 0.5) / side)] ? 1 : 0);
      both += one & other;
      either += one | other;
    }
  }
  return either ? both / either : 0;
}
