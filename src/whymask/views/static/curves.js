// Insertion and deletion curves over the area, on fixed scales from 0 to 1.
"use strict";

whymask.Curves = class Curves {
  static MARGIN = { left: 34, right: 10, top: 10, bottom: 26 };

  /** `onStep(t)` is called when a point of the plot is chosen. */
  constructor(curves, { full, kept, onStep }) {
    const last = curves.areas.length - 1;
    this.x = [0, ...curves.areas];
    this.insertion = [curves.deletion[last], ...curves.insertion];
    this.deletion = [curves.insertion[last], ...curves.deletion];
    Object.assign(this, { full, kept, t: 0 });
    this.element = svg("svg", { class: "wm-plot", role: "img", "aria-label": this.#description(curves) });
    new ResizeObserver(() => this.#draw()).observe(this.element);
    const choose = (event) => {
      const box = this.element.getBoundingClientRect();
      const { left, right } = Curves.MARGIN;
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

  #draw() {
    const { width, height } = this.element.getBoundingClientRect();
    if (!width || !height) return;
    const { left, right, top, bottom } = Curves.MARGIN;
    this.px = (share) => left + share * (width - left - right);
    this.py = (score) => height - bottom - score * (height - top - bottom);
    const point = (value, i) => `${i ? "L" : "M"}${this.px(this.x[i])},${this.py(value)}`;
    const line = (values, name) => svg("path", { class: name, d: values.map(point).join("") });
    const parts = [];
    for (const value of [0, 0.25, 0.5, 0.75, 1]) {
      const y = this.py(value);
      parts.push(svg("line", { class: "wm-grid", x1: left, x2: width - right, y1: y, y2: y }));
      if (value !== 0.25 && value !== 0.75) {
        parts.push(svg("text", { class: "wm-tick", x: left - 8, y: y + 4, "text-anchor": "end" }, value));
      }
      const anchor = value === 0 ? "start" : value === 1 ? "end" : "middle";
      const place = { class: "wm-tick", x: this.px(value), y: height - bottom + 16, "text-anchor": anchor };
      parts.push(svg("text", place, `${100 * value}${value === 1 ? " %" : ""}`));
    }
    const whole = this.py(this.full);
    parts.push(svg("line", { class: "wm-whole", x1: left, x2: width - right, y1: whole, y2: whole }));
    if (this.kept) {
      const seed = this.px(this.x[this.kept]);
      parts.push(svg("path", { class: "wm-seed", d: `M${seed - 5},${this.py(0) + 9}h10l-5,-8z` }));
    }
    parts.push(line(this.deletion, "wm-deletion"), line(this.insertion, "wm-insertion"));
    this.marker = svg("g", {});
    this.element.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.element.replaceChildren(...parts, this.marker);
    this.mark(this.t);
  }

  #description(curves) {
    const [ins, del] = [curves.insertion_auc.toFixed(2), curves.deletion_auc.toFixed(2)];
    return `Score over the share of the area. Inserting regions: area under the curve ${ins}. Deleting them: ${del}.`;
  }
};

function svg(tag, attributes, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}
