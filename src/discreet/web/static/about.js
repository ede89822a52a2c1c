// One item: what is expected of it, why, and what is like it.
import { bar, brief, el } from "./dom.js";
import { said, words } from "./rating.js";

const REASONS = 6;
const ALIKE = 6;

/** Fill the dialog and open it. */
export function showItem(dialog, page, item) {
  const { model, history } = page;
  const { implicit } = model.description;
  const ratings = [...history.ratings].filter(([rated]) => rated !== String(item));
  const [expected] = model.predict(ratings, [item]);
  const close = el(
    "button",
    { type: "button", className: "remove", "aria-label": "Close", "data-key": "close", onclick: () => dialog.close() },
    "×",
  );
  const own = history.get(item);
  dialog.dataset.item = String(item);
  dialog.replaceChildren(
    el("div", { className: "dialog-head" }, el("h2", { id: "about-title" }, model.title(item)), close),
    el("p", { className: "detail" }, page.detail(item)),
    el(
      "div",
      { className: "verdict" },
      implicit
        ? null
        : el(
            "p",
            {},
            el("strong", {}, expected.toFixed(1)),
            ` expected${own === undefined ? "" : ", had you not rated it"}`,
          ),
      el(
        "div",
        {},
        page.control(item),
        el("span", { className: "detail" }, own === undefined ? `not ${words(model.description).done} yet` : said(model.description, own)),
      ),
    ),
    el("h3", {}, "Why"),
    reasons(model, ratings, item),
    el("h3", {}, "Similar"),
    el(
      "ul",
      { className: "alike" },
      ...model.similarItems(item, ALIKE).map((other) =>
        el(
          "li",
          {},
          el(
            "button",
            {
              type: "button",
              className: "chip",
              "data-key": `alike:${other.item}`,
              onclick: () => showItem(dialog, page, other.item),
            },
            other.title,
          ),
        ),
      ),
    ),
  );
  if (!dialog.open) {
    dialog.showModal();
    dialog.onclick = (event) => {
      if (event.target === dialog) dialog.close(); // a click beside it
    };
  }
}

/** What each thing rated adds to the score, as bars to the right or to the left. */
function reasons(model, ratings, item) {
  const { contributions, baseline } = model.explain(ratings, item);
  if (!contributions.length)
    return el("p", { className: "detail" }, `You have ${words(model.description).done} nothing else yet: this is what most people think of it.`);
  const largest = Math.max(...contributions.map(({ adds }) => Math.abs(adds)), 1e-9);
  const sign = (value) => (value < 0 ? "−" : "+") + Math.abs(value).toFixed(2);
  return el(
    "ul",
    { className: "reasons" },
    ...contributions
      .slice(0, REASONS)
      .map(({ title, rating, adds }) =>
        el(
          "li",
          {},
          el("span", {}, title, el("small", {}, ` ${said(model.description, rating)}`)),
          bar(Math.abs(adds) / largest, adds < 0 ? "minus" : ""),
          el("span", { className: "number" }, sign(adds)),
        ),
      ),
    el("li", { className: "detail" }, `Without your ${words(model.description).many} it would be ${brief(baseline)}.`),
  );
}
