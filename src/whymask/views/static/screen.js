// What the page shows: one part at a time, what went wrong, and what is said to those who listen.

export const at = (id) => document.getElementById(id);

/** `turn` counts what the page has been asked to show: code that awaited a response checks that it is still the latest. */
export const screen = { turn: 0 };

/** Say what went wrong: a sentence, or the beginning of one that an error ends. Nothing clears it. */
export function complain(text = "", error = null) {
  at("problem").textContent = error ? `${text}: ${error.message}` : text;
  at("problem").hidden = !text;
}

export function say(text) {
  at("spoken").textContent = text;
}

/** Show one part of the page, under its own title; `again` is what the way back to the form is called. */
export function only(part, title, again = "New image") {
  for (const name of ["start", "live", "result"]) at(name).hidden = name !== part;
  document.querySelector(".again").hidden = part === "start";
  document.querySelector(".again").textContent = again;
  document.title = title ? `${title} \u00b7 whymask` : "whymask";
}

/** Back to the form, with a word on why. */
export function leave(why = "") {
  screen.turn += 1;
  history.replaceState(null, "", location.pathname);
  only("start");
  at("start-title").focus({ preventScroll: true });
  complain(why);
  if (why) scrollTo({ top: 0 });
}

/** The search or the results that the address names. */
export const shownIds = () => location.hash.slice(1).split(",").filter(Boolean);
