// Results in small: what a list shows of each.

/** A link to a result: its picture, its name, its verdict, and more lines. */
export function cardLink(entry, ...lines) {
  const { el, isolated, verdictName } = whymask;
  return el("a", { href: `#${entry.id}` },
    el("img", { src: entry.thumbnail, alt: "", loading: "lazy" }),
    el("b", {}, isolated(entry.label)),
    verdictName(entry),
    ...lines.map((line) => line && el("small", {}, isolated(line))));
}
