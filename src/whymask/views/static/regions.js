// The regions of a photo by mouse, touch and keyboard.
"use strict";

whymask.Regions = class Regions {
  /**
   * `look(region, spoken)` is called when another region is pointed at (-1: none), by keyboard with `spoken`,
   * `pick(region)` when one is chosen, and while there is a `brush`, brush(region, begins) for each region passed.
   * The keyboard begins at the region `first`.
   */
  constructor(photo, image, { first, look, pick }) {
    Object.assign(this, { photo, image, look, pick, brush: null, at: -1, last: first });
    this.element = whymask.el("div", { class: "wm-regions", role: "application", tabindex: 0,
      "aria-label": "The regions of the photo. Arrow keys move from region to region, Enter chooses one." }, photo);
    photo.addEventListener("pointermove", (event) => this.#pointed(event, false));
    photo.addEventListener("pointerdown", (event) => this.#pointed(event, true));
    // A finger leaves when it is lifted: what it has touched stays.
    photo.addEventListener("pointerleave", ({ pointerType }) => pointerType !== "touch" && this.#go(-1, false));
    photo.addEventListener("click", () => !this.brush && this.at >= 0 && this.pick(this.at));
    this.element.addEventListener("keydown", (event) => this.#key(event));
    this.element.addEventListener("blur", () => this.#go(-1, false));
  }

  /** Call `brush` for the regions that a pointer passes while it is down, instead of `pick`; null: no more. */
  set brushing(brush) {
    this.brush = brush;
    this.element.classList.toggle("wm-brushed", Boolean(brush));
  }

  #pointed(event, begins) {
    const box = this.photo.getBoundingClientRect();
    const before = this.at;
    this.#go(this.image.regionAt((event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height), false);
    if (!this.brush || this.at < 0 || event.button > 0) return;
    if (begins) this.photo.setPointerCapture(event.pointerId); // the stroke goes on where the pointer leaves the photo
    if (begins || (event.buttons === 1 && this.at !== before)) this.brush(this.at, begins);
  }

  #go(region, spoken) {
    if (region === this.at && !spoken) return;
    this.at = region;
    if (region >= 0) this.last = region;
    this.look(region, spoken);
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target !== this.element) return;
    const move = whymask.arrow(event);
    if (move) this.#go(this.at < 0 ? this.last : this.beside(this.last, move), true);
    else if (event.key === "Escape") this.#go(-1, false);
    else if ((event.key === "Enter" || event.key === " ") && this.at >= 0) {
      if (this.brush) this.brush(this.at, true);
      else this.pick(this.at);
      this.#go(this.at, true);
    } else return;
    event.preventDefault();
  }

  /** The nearest region in a direction; the same one at the end of the image. */
  beside(region, [x, y]) {
    const { centres } = this;
    const [here, distances] = [centres[region], centres.map(() => Infinity)];
    centres.forEach((centre, other) => {
      const [dx, dy] = [centre[0] - here[0], centre[1] - here[1]];
      const [along, across] = [dx * x + dy * y, Math.abs(dx * y) + Math.abs(dy * x)];
      if (other !== region && along > 0 && along >= 0.5 * across) distances[other] = along + 2 * across;
    });
    const least = Math.min(...distances);
    return least < Infinity ? distances.indexOf(least) : region;
  }

  /** The centre of every region, in pixels of the grid. */
  get centres() {
    if (this.found) return this.found;
    const { n, width, labels } = this.image;
    const sums = Array.from({ length: n }, () => [0, 0, 0]);
    labels.forEach((region, i) => {
      sums[region][0] += i % width;
      sums[region][1] += Math.floor(i / width);
      sums[region][2] += 1;
    });
    this.found = sums.map(([x, y, count]) => [x / count, y / count]);
    return this.found;
  }
};
