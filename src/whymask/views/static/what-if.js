// What if: regions are switched on and off, and the model's score and answer are shown, asked for or known.
"use strict";

whymask.WhatIf = class WhatIf {
  static STEPS = 200; // that can be undone
  static OFFERED = 3; // known sets beside one that is not known
  static SLOW = 300; // milliseconds after which the page says that the model is running

  /**
   * `draw(chosen, shown)` draws a set and what the model is shown of it, `evidence()` is where to begin, `opened(brush)`
   * is called when this is opened, and with null when it is closed. `ask(regions)` asks the model, where there is one.
   */
  constructor(entry, sets, { draw, evidence, opened, ask }) {
    Object.assign(this, { entry, sets, draw, evidence, opened, ask, on: false, asking: false, problem: "" });
    this.states = [];
    this.place = -1;
    this.#build();
  }

  /** The chosen regions, and whether the model is shown all others instead. */
  get state() {
    return this.states[this.place];
  }

  /** What the model is shown. */
  get shown() {
    const { chosen, others } = this.state;
    return others ? whymask.flipped(chosen) : chosen;
  }

  open(on) {
    this.on = on;
    this.element.hidden = !on;
    this.opened(on ? (region, begins) => this.brush(region, begins) : null);
    if (!on) return;
    this.states = [{ chosen: this.evidence(), others: false }];
    this.place = 0;
    this.#refresh();
    this.element.scrollIntoView({ block: "nearest" }); // with the photo, on a phone too
  }

  /** Choose these regions. */
  choose(chosen, others = this.state.others) {
    const same = others === this.state.others && chosen.every((flag, i) => flag === this.state.chosen[i]);
    if (!same) {
      this.states = [...this.states.slice(0, this.place + 1), { chosen, others }].slice(-WhatIf.STEPS);
      this.place = this.states.length - 1;
    }
    this.#refresh();
  }

  /** A region is passed by a stroke, whose first region says whether it switches on or off. */
  brush(region, begins) {
    const chosen = Uint8Array.from(this.state.chosen);
    if (begins) this.stroke = 1 - chosen[region];
    if (chosen[region] === this.stroke) return;
    chosen[region] = this.stroke;
    if (begins) return this.choose(chosen);
    this.state.chosen = chosen; // a stroke is undone as a whole
    this.#refresh();
  }

  /** Undo (-1) or redo (1). */
  step(by) {
    if (!this.states[this.place + by]) return;
    this.place += by;
    this.#refresh();
  }

  #refresh() {
    this.problem = "";
    this.#tell();
    this.#ask();
  }

  /** Ask about what is shown and then about its rest, until both are known; what was shown meanwhile is skipped. */
  async #ask() {
    if (!this.ask || this.asking) return;
    this.asking = true;
    const slow = setTimeout(() => this.#tell("Running the model\u2026"), WhatIf.SLOW);
    try {
      for (;;) {
        const next = [this.shown, whymask.flipped(this.shown)].find((kept) => !this.sets.get(kept)?.answers.length);
        if (!this.on || !next) break;
        this.sets.add(next, await this.ask([...next.keys()].filter((region) => next[region])));
        if (this.on) this.#tell();
      }
    } catch (error) {
      this.problem = error.message;
    }
    clearTimeout(slow);
    this.asking = false;
    if (this.on) this.#tell();
  }

  /** Show what is known of the set. */
  #tell(asking = "") {
    const { el } = whymask;
    const { shown, state } = this;
    const known = this.sets.get(shown);
    const far = !known && (!this.ask || this.problem);
    this.draw(state.chosen, shown);
    this.buttons.only.setAttribute("aria-pressed", !state.others);
    this.buttons.others.setAttribute("aria-pressed", state.others);
    this.buttons.undo.disabled = this.place === 0;
    this.buttons.redo.disabled = this.place === this.states.length - 1;
    const words = known ? this.#sentence(known) : this.problem ? [this.problem] : asking ? [asking]
      : this.ask ? null : ["The search did not score these regions, and no model is available to score them."];
    if (words) this.status.replaceChildren(...words);
    this.offered.hidden = !far;
    this.offered.replaceChildren(...(far ? [el("span", {}, "The nearest sets with known scores:"), ...this.#offers()] : []));
  }

  /** What the model makes of what is shown. */
  #sentence({ score, answers }) {
    const { two, quoted, words } = whymask;
    const { entry, shown, state } = this;
    const count = state.chosen.reduce((sum, flag) => sum + flag, 0);
    const these = count === 1 ? "this region" : `these ${count} regions`;
    const what = count === 0 ? (state.others ? "everything" : "nothing but the fill")
      : state.others ? `all but ${these}` : `only ${these}`;
    const evidence = this.sets.get(this.evidence())?.score;
    const back = shown.every((flag, i) => flag === this.evidence()[i]);
    const than = back || evidence === undefined ? "" : ` (the evidence: ${two(evidence)})`;
    const { label } = entry.target;
    const scores = label === "the score" ? `the score is ${two(score)}${than}.`
      : words`${quoted(label)} scores ${two(score)}${than}.`;
    const said = whymask.said(answers);
    if (!said) return words`Shown ${what}, ${scores}`;
    const same = answers.every((answer) => answer === label);
    return words`Shown ${what}, the model says ${said}${same ? `, which scores ${two(score)}${than}.` : words`; ${scores}`}`;
  }

  /** A button for each of the nearest sets whose score is known. */
  #offers() {
    const { el, two } = whymask;
    const { shown, state, entry } = this;
    const name = (region) => (entry.label_values ? entry.label_values[region] : region);
    return this.sets.nearest(shown, WhatIf.OFFERED).map(({ kept, score, far }) => {
      const changed = [["with", 1], ["without", 0]].flatMap(([word, flag]) => {
        const regions = [...kept.keys()].filter((region) => kept[region] === flag && shown[region] !== flag);
        return regions.length ? [`${word} ${regions.map(name).join(", ")}`] : [];
      });
      const text = far > 4 ? `${far} regions differ` : changed.join(", ");
      const button = el("button", { type: "button" }, `${text}: ${two(score)}`);
      button.addEventListener("click", () => {
        this.choose(state.others ? whymask.flipped(kept) : Uint8Array.from(kept));
        this.status.focus(); // the button is gone
      });
      return button;
    });
  }

  #build() {
    const { el } = whymask;
    const button = (text, act, attributes = {}) => {
      const element = el("button", { type: "button", ...attributes }, text);
      element.addEventListener("click", act);
      return element;
    };
    this.buttons = {
      only: button("Only these", () => this.choose(this.state.chosen, false), { "aria-pressed": true }),
      others: button("All but these", () => this.choose(this.state.chosen, true), { "aria-pressed": false }),
      undo: button("Undo", () => this.step(-1)),
      redo: button("Redo", () => this.step(1)),
      back: button("Back to the evidence", () => this.choose(this.evidence(), false)),
    };
    const { only, others, undo, redo, back } = this.buttons;
    this.button = whymask.toggle("What if\u2026", false, (on) => this.open(on));
    this.button.classList.add("wm-ask");
    this.status = el("p", { class: "wm-status", role: "status", tabindex: -1 });
    this.offered = el("div", { class: "wm-toggles", role: "group", "aria-label": "Sets with known scores", hidden: "" });
    const tap = matchMedia("(hover: none)").matches ? "Tap" : "Click";
    const about = this.ask ? "the model runs each time."
      : "no model is available here, so only scores that the search has seen are known.";
    this.element = el("div", { class: "wm-what-if", role: "group", "aria-label": "What if", hidden: "" },
      this.status, this.offered,
      el("div", { class: "wm-toggles", role: "group", "aria-label": "What the model is shown" }, only, others),
      el("div", { class: "wm-toggles" }, undo, redo, back),
      el("p", { class: "wm-small" }, `${tap} a region to switch it on or off, or brush over several: ${about}`));
  }

  /** Ctrl-Z and Ctrl-Shift-Z; whether the key was one of them. */
  key(event) {
    if (!(event.ctrlKey || event.metaKey) || event.altKey) return false;
    const redo = event.key === "y" || (event.key.toLowerCase() === "z" && event.shiftKey);
    if (!redo && event.key !== "z") return false;
    this.step(redo ? 1 : -1);
    return true;
  }
};

/** The answers on all fills, as texts and elements; null where none is known. */
whymask.said = function said(answers) {
  const named = [...new Set(answers.filter((answer) => answer !== null))];
  if (!named.length) return null;
  const listed = named.flatMap((answer, i) =>
    [i ? (i === named.length - 1 ? " or " : ", ") : "", whymask.quoted(answer)]);
  return named.length > 1 ? [...listed, ", depending on the fill"] : listed;
};
