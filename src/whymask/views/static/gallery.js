// Finished examples, so that the first screen shows something.
import { api } from "./server.js";
import { cardLink } from "./cards.js";
import { at } from "./screen.js";

/** By id, what there is to say about each example. */
export const examples = new Map();

export async function showGallery() {
  const { el } = whymask;
  const listed = await api("/api/examples");
  for (const entry of listed) examples.set(entry.id, entry);
  const items = listed.map((entry) => {
    const answer = entry.kind === "repair" ? entry.summary : `\u201c${entry.label}\u201d: ${entry.summary}`;
    return el("li", {}, cardLink({ ...entry, label: entry.about }, entry.question, answer));
  });
  at("gallery").querySelector("ul").replaceChildren(...items);
  at("gallery").hidden = !items.length;
}
