// A search box over all titles, for mouse, keyboard and screen readers alike (the combobox pattern).
import { el } from "./dom.js";

const SHOWN = 8;

/** Text in the form that is compared: without accents and case. */
export const folded = (text) =>
  text
    .normalize("NFKD")
    .replace(/\p{Mn}/gu, "")
    .toLowerCase();

/** Item numbers whose titles and details have every word of a query: first titles that begin with it, then popular ones. */
export function matches(titles, details, popularity, query, n = SHOWN) {
  const words = folded(query).split(/\s+/).filter(Boolean);
  if (!words.length) return [];
  const found = [];
  titles.forEach((title, number) => {
    if (!words.every((word) => title.includes(word) || details[number].includes(word))) return;
    const inTitle = words.every((word) => title.includes(word));
    const rank = !inTitle ? 3 : title.startsWith(words[0]) ? 0 : title.includes(` ${words[0]}`) ? 1 : 2;
    found.push([rank, -popularity[number], number]);
  });
  found.sort((a, b) => a[0] - b[0] || a[1] - b[1] || a[2] - b[2]);
  return found.slice(0, n).map((entry) => entry[2]);
}

/** Turn an input and a list into a search box; `onChoose` gets the number of an item. */
export function searchBox(input, list, { find, describe, onChoose }) {
  let shown = [];
  let active = -1;

  const close = () => {
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
    active = -1;
  };
  const choose = (number) => {
    input.value = "";
    close();
    onChoose(number);
  };
  const mark = (at) => {
    active = at;
    [...list.children].forEach((option, i) => option.setAttribute("aria-selected", String(i === at)));
    if (at >= 0) {
      input.setAttribute("aria-activedescendant", list.children[at].id);
      list.children[at].scrollIntoView({ block: "nearest" });
    }
  };
  const open = () => {
    shown = find(input.value);
    if (!input.value.trim()) return close();
    const options = shown.map((number, i) => {
      const { title, detail } = describe(number);
      return el(
        "li",
        {
          id: `found-${i}`,
          role: "option",
          "aria-selected": "false",
          onpointerdown: (event) => event.preventDefault(),
          onclick: () => choose(number),
        },
        title,
        detail ? el("small", {}, detail) : null,
      );
    });
    list.replaceChildren(
      ...(options.length
        ? options
        : [
            el("li", { role: "option", "aria-disabled": "true", "aria-selected": "false" }, "No title has these words"),
          ]),
    );
    list.hidden = false;
    input.setAttribute("aria-expanded", "true");
    mark(options.length ? 0 : -1);
  };

  input.addEventListener("input", open);
  input.addEventListener("focus", () => input.value && open());
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    const moves = { ArrowDown: 1, ArrowUp: -1 };
    if (event.key in moves && shown.length) {
      if (list.hidden) open();
      else mark((active + moves[event.key] + shown.length) % shown.length);
    } else if (event.key === "Enter" && !list.hidden && active >= 0) choose(shown[active]);
    else if (event.key === "Escape" && !list.hidden) close();
    else return;
    event.preventDefault();
  });
}
