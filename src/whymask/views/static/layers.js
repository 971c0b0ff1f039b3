// What lies over the photo: the mask, its outline, and heat by rank, by seeds, by masks or by sizes of the mask.
"use strict";

whymask.Layers = class Layers {
  /** `changed()` is called when another layer is to be painted. */
  constructor(entry, sets, changed) {
    const { el } = whymask;
    Object.assign(this, { mask: true, outline: true, heat: null });
    this.ramp = el("span", { class: "wm-ramp", hidden: "" });
    this.heats = whymask.heats(entry, sets).map((heat) => ({ ...heat, button: whymask.toggle(heat.name, false, (on) => {
      this.heated(on ? heat : null);
      changed();
    }) }));
    const shapes = ["mask", "outline"].map((name) => whymask.toggle(name, true, (on) => {
      this[name] = on;
      changed();
    }));
    this.masked = shapes[0];
    this.element = el("div", { class: "wm-toggles", role: "group", "aria-label": "Show on the photo" },
      ...shapes, ...this.heats.map((heat) => heat.button), this.ramp);
  }

  /** Show one kind of heat, or none. What is dimmed shows no heat, so the mask is off meanwhile. */
  heated(heat) {
    this.heat = heat;
    this.mask = !heat;
    this.masked.setAttribute("aria-pressed", this.mask);
    for (const { name, button } of this.heats) button.setAttribute("aria-pressed", name === heat?.name);
    this.ramp.hidden = !heat;
    if (heat) this.ramp.replaceChildren(heat.ends[0], whymask.el("i"), heat.ends[1]);
  }

  /** What `ExplainedImage.paint` is to paint. */
  get shown() {
    return { show: { mask: this.mask, outline: this.outline, heat: Boolean(this.heat) }, heat: this.heat?.values };
  }
};

/**
 * The kinds of heat that an explanation has, each with a `name`, the `ends` of its scale, a value from 0 to 1 for each region
 * and, where the view does not say it anyway, what there is to `tell` about a region.
 */
whymask.heats = function heats(entry, sets) {
  const share = (name, what, ends, count, held) => ({ name, ends, values: held.map((times) => times / count),
    tell: (region) => `in ${held[region]} of ${count} ${what}` });
  const regions = Array.from({ length: sets.n }, (_, region) => region);
  const count = (kept) => regions.map((region) => kept.filter((flags) => flags[region]).length);
  const found = [];
  if (entry.kind === "ordering") {
    const values = regions.map(() => 0);
    entry.order.forEach((region, t) => (values[region] = 1 - t / entry.order.length));
    found.push({ name: "heat", ends: ["last", "first"], values });
  }
  if (entry.over_seeds) {
    const { count: seeds, held } = entry.over_seeds;
    found.push(share("seeds", "seeds", ["in no seed", "in every seed"], seeds, held));
  }
  if (entry.alternatives?.length) {
    const masks = [entry, ...entry.alternatives].map((mask) => sets.of(mask.regions));
    found.push({ ...share("masks", "masks", ["in no mask", "in every mask"], masks.length, count(masks)), tell: null });
  }
  const best = whymask.bestOfEverySize(entry.frontier ?? {}, sets);
  if (best.length > 1) found.push(share("sizes", "best masks by size", ["in no size", "in every size"], best.length, count(best)));
  return found;
};

/** The sets behind the scores {size: score} of a frontier, as far as they are known. */
whymask.bestOfEverySize = function bestOfEverySize(frontier, sets) {
  const sized = [...sets.known.values()].map(({ kept, score }) => [kept.reduce((sum, flag) => sum + flag, 0), score, kept]);
  return Object.entries(frontier).flatMap(([size, best]) => {
    const same = ([other, score]) => other === Number(size) && Math.abs(score - best) < 2 / whymask.ScoredSets.SCALE;
    return sized.filter(same).slice(0, 1).map(([, , kept]) => kept);
  });
};
