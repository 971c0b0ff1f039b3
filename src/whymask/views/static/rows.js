// The rows of a table about regions: pointing at one lights its region on the photo, and the other way round.
"use strict";

whymask.Rows = class Rows {
  static WIDTH = 400; // of the preview, in pixels

  /** `order` has the region of every row; `view.look(region)` lights one on `view.photo`, which may be out of sight. */
  constructor(body, order, view) {
    Object.assign(this, { body, photo: view.photo, lit: null });
    this.preview = whymask.el("canvas", { class: "wm-canvas", "aria-hidden": "true" });
    this.show();
    this.rows = new Map(order.map((region, i) => [region, body.rows[i]]));
    for (const [region, row] of this.rows) {
      row.tabIndex = row === body.rows[0] ? 0 : -1; // one stop for all: arrow keys move
      row.addEventListener("pointerenter", () => view.look(region));
      row.addEventListener("pointerdown", () => view.look(region)); // a finger does not hover
      row.addEventListener("focus", () => view.look(region));
      for (const end of ["pointerleave", "blur"]) row.addEventListener(end, () => view.look(-1));
      row.addEventListener("keydown", (event) => this.#key(event, row));
    }
  }

  /** Show the photo, as it is painted now, beside the rows. */
  show() {
    const { preview, photo } = this;
    preview.width = Rows.WIDTH;
    preview.height = Math.round((Rows.WIDTH * photo.height) / photo.width);
    preview.getContext("2d").drawImage(photo, 0, 0, preview.width, preview.height);
  }

  /** Mark the row of a region (-1: of none), and bring it into sight within the table. */
  light(region) {
    this.lit?.classList.remove("wm-lit");
    this.lit = this.rows.get(region) ?? null;
    if (!this.lit) return;
    this.lit.classList.add("wm-lit");
    const scrolled = this.body.closest(".wm-scroll");
    const [row, room] = [this.lit.getBoundingClientRect(), scrolled.getBoundingClientRect()];
    const head = this.body.parentElement.tHead.offsetHeight;
    if (row.top < room.top + head) scrolled.scrollTop += row.top - room.top - head;
    else if (row.bottom > room.bottom) scrolled.scrollTop += row.bottom - room.bottom;
  }

  #key(event, row) {
    const next = { ArrowDown: row.nextElementSibling, ArrowUp: row.previousElementSibling }[event.key];
    if (!next) return;
    event.preventDefault();
    row.tabIndex = -1;
    next.tabIndex = 0;
    next.focus({ preventScroll: true });
  }
};
