// The page: people rate items and get recommendations, all computed in the browser.
import { Model } from "./client/discreet.js";
import { showItem } from "./about.js";
import { $, bar, clipped, el, listed } from "./dom.js";
import { CatalogueMap } from "./map.js";
import { watchNetwork, showPrivacy } from "./privacy.js";
import { expectedRating, ratingControl, words } from "./rating.js";
import { folded, matches, searchBox } from "./search.js";
import { History } from "./store.js";
import { setUpTheme } from "./theme.js";

const STEP = matchMedia("(max-width: 52rem)").matches ? 6 : 12; // recommendations shown at first, and added each time
const PATIENCE = 20_000; // milliseconds to wait for a copy of the site
const BEGINNINGS = 6; // how many well-known items are offered to a new user

setUpTheme($("theme"));
start().catch((error) => {
  $("loading").hidden = true;
  $("failure-reason").textContent = `${error.message}.`.replace(/\.\.$/, ".");
  $("failure").hidden = false;
});

async function start() {
  const model = await Model.load("model/");
  const {
    title,
    value_range: [low, high],
  } = model.description;
  document.title = title;
  $("title").textContent = title;
  if (model.description.implicit) {
    for (const node of document.querySelectorAll("[data-implicit]")) node.textContent = node.dataset.implicit;
  }
  const history = new History(new URL("./", location.href).pathname);
  history.restrict((item, rating) => model.numbers.has(item) && (rating === null || (rating >= low && rating <= high)));
  $("loading").hidden = true;
  $("app").hidden = false;
  new Page(model, history).begin();
  showPrivacy($("privacy"), model, history);
  await keepCopy();
  watchNetwork((count) => {
    $("silence-count").textContent =
      `${["Not one request", "One request"][count] ?? `${count} requests`} since this page was ready.`;
    $("silence").classList.toggle("loud", count > 0);
  });
}

/** Have the browser keep the files of this site, so that it opens without a network; resolves when they are stored. */
async function keepCopy() {
  if (!("serviceWorker" in navigator)) return;
  const kept = navigator.serviceWorker.register("sw.js").then(() => navigator.serviceWorker.ready);
  await Promise.race([kept, new Promise((resolve) => setTimeout(resolve, PATIENCE))]).catch(() => {});
}

class Page {
  constructor(model, history) {
    Object.assign(this, { model, history, shown: STEP, draft: null });
  }

  begin() {
    const { model, history } = this;
    $("n-items").textContent = model.ids.length.toLocaleString("en");
    const names = model.ids.map((id) => folded(model.title(id)));
    const details = model.ids.map((id) => folded(this.detail(id)));
    searchBox($("search"), $("found"), {
      find: (query) => matches(names, details, model.arrays.popularity, query),
      describe: (number) => ({ title: model.title(model.ids[number]), detail: this.detail(model.ids[number]) }),
      onChoose: (number) => this.choose(model.ids[number]),
    });
    $("more").addEventListener("click", () => this.showMore());
    $("save").addEventListener("click", () => this.save());
    $("clear").addEventListener("click", () => $("confirm").showModal());
    $("confirm-no").addEventListener("click", () => $("confirm").close());
    $("confirm-yes").addEventListener("click", () => {
      $("confirm").close();
      this.draft = null;
      history.clear();
      $("search").focus();
    });
    if (this.knowsTastes()) this.map = new CatalogueMap($("map"), $("map-label"), model, (item) => this.open(item));
    else $("map-section").hidden = $("map-link").hidden = true;
    history.onChange(() => this.render());
    this.render();
  }

  /** A short description of an item, from the catalog. */
  detail(item) {
    const number = this.model.number(item);
    const cells = Object.values(this.model.columns).map((column) => column[number]);
    return cells
      .filter((cell) => cell !== null && cell !== "")
      .map((cell) => String(cell).replaceAll("|", ", "))
      .join(" · ");
  }

  choose(item) {
    if (this.model.description.implicit) return this.history.rate(item, 1);
    if (this.history.get(item) === undefined) this.draft = String(item);
    this.render();
    return $("ratings")
      .querySelector(`[data-item="${CSS.escape(String(item))}"] input`)
      ?.focus();
  }

  rate(item, value) {
    if (this.draft === String(item)) this.draft = null;
    this.history.rate(item, value);
  }

  open(item) {
    showItem($("about"), this, item);
  }

  showMore() {
    const first = this.shown;
    this.shown += STEP;
    this.render();
    $("recommendations").children[first]?.querySelector("button")?.focus();
  }

  save() {
    const url = URL.createObjectURL(
      new Blob([this.history.toText((item) => this.model.title(item))], { type: "application/json" }),
    );
    el("a", { href: url, download: "my-ratings.json" }).click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  }

  /** Draw everything that depends on the ratings. */
  render() {
    const restore = keptFocus();
    const { model, history } = this;
    const ratings = [...history.ratings];
    const found = model.recommend(ratings, { n: this.shown, deny: history.hidden });
    this.#history(ratings);
    this.#recommendations(ratings, found);
    this.map?.update(
      model.scores(ratings),
      history.ratings,
      found.slice(0, 8).map(({ item }) => item),
    );
    if ($("about").open) this.open($("about").dataset.item);
    restore();
  }

  #history(ratings) {
    const rows = ratings.reverse().map(([item, value]) => this.#row(item, value));
    ratings.reverse();
    if (this.draft !== null) rows.unshift(this.#row(this.draft, undefined));
    $("history").replaceChildren(...rows);
    $("history").hidden = !rows.length;
    $("history-actions").hidden = !ratings.length && !this.history.hidden.size;
    $("beginning").hidden = rows.length > 0;
    if (!rows.length) $("suggestions").replaceChildren(...this.#beginnings().map((item) => this.#row(item, undefined)));
  }

  #beginnings() {
    const {
      arrays: { popularity },
      ids,
    } = this.model;
    return ids
      .map((item, i) => [popularity[i], item])
      .sort((a, b) => b[0] - a[0])
      .slice(0, BEGINNINGS)
      .map(([, item]) => item);
  }

  /** An item that is rated, or can be. */
  #row(item, value) {
    const title = this.model.title(item);
    const isRated = value !== undefined;
    return el(
      "li",
      { "data-item": String(item) },
      el(
        "button",
        { type: "button", className: "name", "data-key": `open:${item}`, onclick: () => this.open(item) },
        title,
      ),
      this.control(item),
      isRated
        ? el(
            "button",
            {
              type: "button",
              className: "remove",
              "aria-label": `Remove the ${words(this.model.description).one} of ${title}`,
              onclick: () => this.rate(item, null),
            },
            "×",
          )
        : null,
    );
  }

  /** The control that rates an item. */
  control(item) {
    const control = ratingControl(this.model.description, {
      title: this.model.title(item),
      value: this.history.get(item),
      onRate: (value) => this.rate(item, value),
    });
    for (const input of control.querySelectorAll("input")) input.dataset.key = `star:${item}:${input.value}`;
    if (control.tagName === "BUTTON") control.dataset.key = `star:${item}`;
    return control;
  }

  #recommendations(ratings, found) {
    const expected = this.model.predict(
      ratings,
      found.map(({ item }) => item),
    );
    const cards = found.map(({ item, score }, i) =>
      this.#card(item, expected[i], this.#part(score, found[0].score), ratings),
    );
    $("recommendations").replaceChildren(...cards);
    $("more").hidden = found.length < this.shown;
    const cold = this.model.description.scoring.cold_note.replace(/^no history: /, "");
    const { done } = words(this.model.description);
    const known = { 0: `not personal yet: ${cold}`, 1: `from the one thing you ${done}` };
    $("note").textContent = known[ratings.length] ?? `from the ${ratings.length} things you ${done}`;
  }

  /** How far a recommendation's bar is filled: by the rating if that is the score, else relative to the first. */
  #part(score, first) {
    const {
      value_range: [low, high],
    } = this.model.description;
    return this.model.scoresAreRatings ? (score - low) / (high - low) : score / (first || 1);
  }

  #card(item, expected, part, ratings) {
    const { description } = this.model;
    const title = this.model.title(item);
    const value = description.predicts_ratings ? expectedRating(description, expected) : null;
    return el(
      "li",
      { "data-item": String(item) },
      el(
        "div",
        { className: "card-head" },
        el(
          "button",
          { type: "button", className: "name", "data-key": `open:${item}`, onclick: () => this.open(item) },
          title,
        ),
        value,
      ),
      el("p", { className: "detail" }, this.detail(item)),
      bar(part),
      el("p", { className: "why" }, this.#because(ratings, item)),
      el(
        "div",
        { className: "card-foot" },
        this.control(item),
        el(
          "button",
          {
            type: "button",
            className: "quiet small",
            "aria-label": `Not for me: ${title}`,
            onclick: () => this.history.hide(item),
          },
          "Not for me",
        ),
      ),
    );
  }

  /** Whether the model knows directions of taste. If not, there is no map, and lists follow popularity. */
  knowsTastes() {
    const [first, end] = this.model.description.similar;
    return end > first;
  }

  /** The reason in one line: the items that contributed most. */
  #because(ratings, item) {
    if (!ratings.length) return "";
    if (!this.knowsTastes()) return "Because many people like it";
    const helped = this.model
      .explain(ratings, item)
      .contributions.filter(({ adds }) => adds > 0)
      .slice(0, 2);
    return helped.length ? `Because of ${listed(helped.map(({ title }) => clipped(title)))}` : "Because many people like it";
  }
}

/** Remember the key of the focused control, and focus the control that replaces it. */
function keptFocus() {
  const key = document.activeElement?.dataset?.key;
  const index = [...$("recommendations").children].findIndex((card) => card.contains(document.activeElement));
  if (!key && index < 0) return () => {};
  return () => {
    const within = $("about").open ? $("about") : document;
    const same = key && within.querySelector(`[data-key="${CSS.escape(key)}"]`);
    (same ?? $("recommendations").children[index]?.querySelector("button"))?.focus();
  };
}
