// Small helpers to build the page. Text is never parsed as HTML, wherever it comes from.

export const $ = (id) => document.getElementById(id);

/** An element with properties, and children that are elements or text. */
export function el(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name in made && typeof value !== "string") made[name] = value;
    else made.setAttribute(name === "className" ? "class" : name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

const SVG = "http://www.w3.org/2000/svg";

/** The same for SVG elements. */
export function svg(tag, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** A number as text, with at most three significant digits. */
export const brief = (value) => String(Number(value.toPrecision(3)));

/** An upper bound as text: three significant digits, rounded up, since rounding down would promise too much. */
export function atMost(value) {
  const unit = 10 ** (Math.floor(Math.log10(value)) - 2);
  return brief(Math.ceil(value / unit - 1e-9) * unit);
}

/** A title, shortened: some catalogs have whole texts as titles. */
export const clipped = (text, most = 60) => (text.length > most ? `${text.slice(0, most - 2).trimEnd()}…` : text);

/** A list in words: "a, b and c". */
export function listed(words) {
  return words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`;
}

/** A bar of which a share is filled, from the left. */
export function bar(part, className = "") {
  const filled = el("span", { className: "fill" });
  filled.style.width = `${Math.round(Math.min(Math.max(part, 0), 1) * 100)}%`;
  return el("span", { className: `bar ${className}`, "aria-hidden": "true" }, filled);
}
