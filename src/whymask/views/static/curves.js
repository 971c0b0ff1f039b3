// Plots of scores on a fixed scale from 0 to 1: curves over the area, and scores by the number of regions kept.
"use strict";

whymask.Plot = class Plot {
  static MARGIN = { left: 34, right: 10, top: 24, bottom: 40 };

  /** `label` for those who cannot see it; the x axis by its title and its `ticks`, [share of its length, text]. */
  constructor(label, title, ticks) {
    Object.assign(this, { title, ticks });
    this.element = svg("svg", { class: "wm-plot", role: "img", "aria-label": label });
    new ResizeObserver(() => this.#draw()).observe(this.element);
  }

  /** A line across the plot. */
  across(score, name) {
    const [y, { left, right }] = [this.py(score), Plot.MARGIN];
    return svg("line", { class: name, x1: left, x2: this.width - right, y1: y, y2: y });
  }

  /** A line through the values at the places `x`, shares of the axis. */
  line(x, values, name) {
    const point = (value, i) => `${i ? "L" : "M"}${this.px(x[i])},${this.py(value)}`;
    return svg("path", { class: name, d: values.map(point).join("") });
  }

  #draw() {
    const { width, height } = this.element.getBoundingClientRect();
    if (!width || !height) return;
    const { left, right, top, bottom } = Plot.MARGIN;
    this.width = width;
    this.px = (share) => left + share * (width - left - right);
    this.py = (score) => height - bottom - score * (height - top - bottom);
    const parts = [0, 0.25, 0.5, 0.75, 1].map((value) => this.across(value, "wm-grid"));
    for (const value of [0, 0.5, 1]) {
      parts.push(svg("text", { class: "wm-tick", x: left - 8, y: this.py(value) + 4, "text-anchor": "end" }, value));
    }
    for (const [share, text] of this.ticks) {
      const anchor = share === 0 ? "start" : share === 1 ? "end" : "middle";
      const place = { class: "wm-tick", x: this.px(share), y: height - bottom + 16, "text-anchor": anchor };
      parts.push(svg("text", place, text));
    }
    const middle = (left + width - right) / 2;
    parts.push(svg("text", { class: "wm-axis", x: 0, y: 12 }, "score"),
      svg("text", { class: "wm-axis", x: middle, y: height - 6, "text-anchor": "middle" }, this.title));
    this.element.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.element.replaceChildren(...parts, ...this.parts());
  }
};

/** Insertion and deletion over the area. */
whymask.Curves = class Curves extends whymask.Plot {
  /** `onStep(t)` is called when a point of the plot is chosen. */
  constructor(curves, { full, kept, onStep }) {
    const [ins, del] = [curves.insertion_auc.toFixed(2), curves.deletion_auc.toFixed(2)];
    super(
      `Score over the share of the area. Inserting regions: area under the curve ${ins}. Deleting them: ${del}.`,
      "share of the area, most important regions first",
      [[0, "0"], [0.25, "25"], [0.5, "50"], [0.75, "75"], [1, "100%"]],
    );
    const last = curves.areas.length - 1;
    this.x = [0, ...curves.areas];
    this.insertion = [curves.deletion[last], ...curves.insertion];
    this.deletion = [curves.insertion[last], ...curves.deletion];
    Object.assign(this, { full, kept, t: 0 });
    this.element.classList.add("wm-stepped");
    const choose = (event) => {
      const box = this.element.getBoundingClientRect();
      const { left, right } = whymask.Plot.MARGIN;
      const share = (event.clientX - box.left - left) / (box.width - left - right);
      const distance = this.x.map((x) => Math.abs(x - share));
      onStep(distance.indexOf(Math.min(...distance)));
    };
    this.element.addEventListener("pointerdown", (event) => {
      this.element.setPointerCapture(event.pointerId);
      choose(event);
    });
    this.element.addEventListener("pointermove", (event) => event.buttons && choose(event));
  }

  /** Mark the prefix of t regions. */
  mark(t) {
    this.t = t;
    if (!this.marker) return;
    const [x, up, down] = [this.px(this.x[t]), this.py(this.insertion[t]), this.py(this.deletion[t])];
    this.marker.replaceChildren(
      svg("line", { x1: x, x2: x, y1: this.py(0), y2: this.py(1), class: "wm-now" }),
      svg("circle", { cx: x, cy: up, r: 5, class: "wm-insertion-dot" }),
      svg("rect", { x: x - 4.5, y: down - 4.5, width: 9, height: 9, class: "wm-deletion-dot" }),
    );
  }

  parts() {
    const parts = [this.across(this.full, "wm-whole")];
    if (this.kept) {
      const initial = this.px(this.x[this.kept]);
      parts.push(svg("path", { class: "wm-initial", d: `M${initial - 5},${this.py(0) + 9}h10l-5,-8z` }));
    }
    parts.push(this.line(this.x, this.deletion, "wm-deletion"), this.line(this.x, this.insertion, "wm-insertion"));
    this.marker = svg("g", {});
    this.mark(this.t);
    return [...parts, this.marker];
  }
};

/** Scores by the number of regions kept, the goal if there was one, and the mask that came back. */
whymask.Sizes = class Sizes extends whymask.Plot {
  /** `what` the scores {size: score} are; `dotted` are the sizes that get a dot. */
  constructor(what, scores, { size, score, goal = null, full, dotted = () => true }) {
    const sizes = Object.keys(scores).map(Number).sort((a, b) => a - b);
    const most = Math.max(...sizes);
    const every = Math.ceil(most / 12);
    const marked = Array.from({ length: Math.floor(most / every) + 1 }, (_, i) => i * every);
    const enough = goal === null ? "" : ` ${whymask.two(goal)} would be enough.`;
    super(
      `${what} by the number of regions kept, from ${sizes[0]} to ${most}.${enough} ` +
        `The mask has ${size} regions and keeps ${whymask.two(score)}.`,
      "number of regions kept",
      marked.map((k) => [k / most, String(k)]),
    );
    this.x = sizes.map((k) => k / most);
    this.scores = sizes.map((k) => scores[k]);
    this.dotted = sizes.map(dotted);
    Object.assign(this, { chosen: [size / most, score], goal, full });
  }

  parts() {
    const dot = ([x, score], name, r) => svg("circle", { class: name, cx: this.px(x), cy: this.py(score), r });
    return [
      this.across(this.full, "wm-whole"),
      ...(this.goal === null ? [] : [this.across(this.goal, "wm-goal")]),
      this.line(this.x, this.scores, "wm-frontier"),
      ...this.x.flatMap((x, i) => (this.dotted[i] ? [dot([x, this.scores[i]], "wm-seen", 3)] : [])),
      dot(this.chosen, "wm-chosen", 6),
    ];
  }
};

function svg(tag, attributes, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}
