// The rows of a table about regions: pointing at one lights its region on the photo, and the other way round.
"use strict";

whymask.Rows = class Rows {
  /** `order` has the region of every row; `view.look(region)` lights one. */
  constructor(body, order, view) {
    Object.assign(this, { body, lit: null });
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
