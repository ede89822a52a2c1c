// The dialog about one item: its predicted rating, why, and similar items.
import { bar, brief, clipped, el } from "./dom.js";
import { expectedRating, said, scale, shortly, words } from "./rating.js";

const REASONS = 6;
const ALIKE = 6;

/** Fill the dialog and open it. */
export function showItem(dialog, page, item) {
  const { model, history } = page;
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
      !model.description.predicts_ratings
        ? null
        : el(
            "p",
            {},
            own === undefined ? "Expected rating " : "Expected if you had not rated it: ",
            expectedRating(model.description, expected),
            el("span", { className: "detail" }, scale(model.description)),
          ),
      el(
        "div",
        {},
        page.control(item),
        el("span", { className: "detail" }, own === undefined ? `not ${words(model.description).done} yet` : said(model.description, own)),
      ),
    ),
    el("h3", {}, "Why"),
    ...reasons(model, ratings, item),
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
            clipped(other.title),
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

/** The contribution of each rated item to the score of an item, as bars, in words or in the unit of ratings. */
function reasons(model, ratings, item) {
  const { done, many } = words(model.description);
  const { contributions, baseline } = model.explain(ratings, item);
  if (!contributions.length) {
    const place = model.scoresAreRatings ? "this is the average opinion" : "its place shows how popular it is";
    return [el("p", { className: "detail" }, `You have ${done} nothing else yet: ${place}.`)];
  }
  const largest = Math.max(...contributions.map(({ adds }) => Math.abs(adds)), 1e-9);
  const rows = contributions.slice(0, REASONS).map(({ title, rating, adds }) => {
    const part = adds / largest;
    return el(
      "li",
      {},
      el("span", {}, clipped(title), el("small", {}, ` ${shortly(model.description, rating)}`)),
      bar(Math.abs(part), part < 0 ? "minus" : ""),
      model.scoresAreRatings
        ? el("span", { className: "number" }, (adds < 0 ? "−" : "+") + Math.abs(adds).toFixed(2))
        : el("span", { className: "amount" }, amount(part)),
    );
  });
  const without = `Without your ${many} it would be`;
  if (model.scoresAreRatings) {
    const last = el("li", { className: "detail" }, `${without} ${brief(baseline)}.`);
    return [el("ul", { className: "reasons" }, ...rows, last)];
  }
  const [before, now] = [[], ratings].map((history) => place(model, history, ratings, item));
  const change = before === now ? ", too" : `; with them it is number ${now}`;
  const last = el("li", { className: "detail" }, `${without} number ${before} on your list${change}.`);
  const about = `How much each thing you ${done} counts in its favor, judging by what the same people choose:`;
  return [el("p", { className: "detail" }, about), el("ul", { className: "reasons" }, ...rows, last)];
}

/** How strongly a contribution speaks for or against an item, relative to the strongest one. */
function amount(part) {
  if (part < -0.01) return "against it";
  return part > 0.66 ? "a lot" : part > 0.33 ? "some" : part > 0.01 ? "a little" : "nothing";
}

/** The rank of an item for a history, among all items that were not rated. */
function place(model, history, ratings, item) {
  const scores = model.scores(history);
  const rated = new Set(ratings.map(([number]) => model.number(number)));
  const own = scores[model.number(item)];
  return 1 + scores.filter((score, at) => score > own && !rated.has(at)).length;
}
