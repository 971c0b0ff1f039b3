// The sets of regions whose scores are known: those that the search has scored, and those the model was asked about.
"use strict";

whymask.ScoredSets = class ScoredSets {
  static SCALE = 10000; // steps of a score in the document

  /** What is known of an explanation of the document: [score, answers by fill] of many sets. */
  constructor(entry, n) {
    this.n = n;
    this.known = new Map(); // the flags of a set as text -> { kept, score, answers }
    if (entry.scored) this.#decode(entry.scored);
    const whole = new Uint8Array(n).fill(1);
    this.#given(whole, entry.full_score);
    this.#given(new Uint8Array(n), entry.blank_score);
    for (const mask of "regions" in entry ? [entry, ...entry.alternatives] : []) {
      this.#given(this.of(mask.regions), mask.score);
      this.#given(whymask.flipped(this.of(mask.regions)), mask.removed_score);
    }
    entry.scores?.forEach((score, t) => this.#given(this.of(entry.order.slice(0, t + 1)), score)); // of a repair
    for (let t = 1; entry.curves && t <= n; t++) {
      const prefix = this.of(entry.order.slice(0, t));
      this.#given(prefix, entry.curves.insertion[t - 1]);
      this.#given(whymask.flipped(prefix), entry.curves.deletion[t - 1]);
    }
  }

  /** The flags of some regions. */
  of(regions) {
    return whymask.flags(this.n, regions);
  }

  /** What is known of a set; undefined where nothing is. */
  get(kept) {
    return this.known.get(kept.join(""));
  }

  add(kept, { score, answers }) {
    this.known.set(kept.join(""), { kept: Uint8Array.from(kept), score, answers });
  }

  /** What is known of the set that has a region more, or less. */
  switched(kept, region) {
    const other = Uint8Array.from(kept);
    other[region] = 1 - other[region];
    return this.get(other);
  }

  /** The known sets that differ from this one in the fewest regions, of those the highest score first. */
  nearest(kept, most) {
    const sets = [...this.known.values()].map((one) => ({ ...one, far: one.kept.filter((flag, i) => flag !== kept[i]).length }));
    return sets.sort((a, b) => a.far - b.far || b.score - a.score).slice(0, most);
  }

  /** A score from elsewhere in the document, which is exact and has no answers. */
  #given(kept, score) {
    if (score !== null) this.add(kept, { score, answers: this.get(kept)?.answers ?? [] });
  }

  #decode({ sets, scores, given, answers }) {
    const bytes = (text) => Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
    const numbers = (text, signed) => {
      const data = new DataView(bytes(text).buffer);
      const read = signed ? "getInt16" : "getUint16";
      return Array.from({ length: data.byteLength / 2 }, (_, i) => data[read](2 * i, true));
    };
    const [bits, values, places] = [bytes(sets), numbers(scores, false), numbers(given, true)];
    const width = Math.ceil(this.n / 8);
    const fills = places.length / values.length;
    values.forEach((value, i) => {
      const kept = Uint8Array.from({ length: this.n }, (_, r) => (bits[i * width + (r >> 3)] >> (r & 7)) & 1);
      const said = places.slice(i * fills, (i + 1) * fills).map((place) => (place < 0 ? null : answers[place]));
      this.add(kept, { score: value / ScoredSets.SCALE, answers: said });
    });
  }
};

/** Some of n regions as a flag for each of them. */
whymask.flags = function flags(n, regions) {
  const kept = new Uint8Array(n);
  for (const region of regions) kept[region] = 1;
  return kept;
};

/** The flags of all other regions. */
whymask.flipped = (kept) => kept.map((flag) => 1 - flag);
