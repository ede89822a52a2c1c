/**
 * Recommendations from a model that `discreet export` wrote, computed where the user is. Nothing they say is sent
 * anywhere: after `Model.load` this module makes no request, and it never stores anything.
 *
 *     import { Model } from "./discreet.js";
 *     const model = await Model.load("model/");
 *     model.recommend({ tt0111161: 5, tt0068646: 4.5 }, { n: 10 });
 *
 * A history is an object {item: rating}, a Map, an array of [item, rating] pairs, or, for liked items, an array of
 * items. The mathematics is in scoring.js and what it imports, and agrees with Python to 1e-5.
 */
import { ModelError, parsed, read, requireUnchanged, unpacked } from "./files.js";
import { best } from "./linalg.js";
import { Scoring } from "./scoring.js";

export { ModelError };

export const FORMAT = "discreet-web";
export const VERSION = 2;
const TOLERANCE = 1e-5; // largest difference of scores, relative to the range of values

/** An item that the model does not know, or a rating that cannot be one. */
export class HistoryError extends Error {}

export class Model {
  /**
   * Read a model from the folder at `url`; all of it is in memory afterwards.
   * @param {string | URL} url of the folder with model.json, arrays.bin and items.json.
   * @param {{fetch?: typeof fetch}} options
   */
  static async load(url, { fetch: get = globalThis.fetch } = {}) {
    const base = new URL(url, globalThis.location?.href);
    if (!base.pathname.endsWith("/")) base.pathname += "/";
    const [head, arrays, items] = await Promise.all([
      read(get, new URL("model.json", base)),
      read(get, new URL("arrays.bin", base)),
      read(get, new URL("items.json", base)),
    ]);
    const description = parsed("model.json", head);
    if (description?.format !== FORMAT || description.version !== VERSION) {
      throw new ModelError(`model.json does not describe a model of version ${VERSION}; export it again`);
    }
    await Promise.all([
      requireUnchanged("arrays.bin", arrays, description.files?.["model/arrays.bin"]),
      requireUnchanged("items.json", items, description.files?.["model/items.json"]),
    ]);
    let model;
    try {
      model = new Model(description, arrays, parsed("items.json", items));
    } catch (error) {
      throw error instanceof ModelError ? error : new ModelError(`the files are not a whole model (${error.message})`);
    }
    model.check();
    return model;
  }

  /** From the content of the three files; use `Model.load` to get one. */
  constructor(description, buffer, items) {
    /** The content of model.json: title, value_range, implicit, privacy, loss, tradeoff and more. */
    this.description = description;
    /** Item ids, in their own type. Methods accept an id's text, too. */
    this.ids = items.ids;
    /** The items' titles, or null. */
    this.titles = items.titles;
    /** Other public columns of the catalog, by name. */
    this.columns = items.columns;
    this.rank = description.rank;
    this.arrays = unpacked(buffer, description.arrays);
    this.scoring = new Scoring(description.scoring, this.arrays);
    this.numbers = new Map(this.ids.map((id, number) => [String(id), number]));
    const { lists, ratings } = this.scoring;
    const fit = [lists, ratings].every(({ arrays, rank }) => arrays.base.length === this.ids.length && rank % 1 === 0);
    if (this.ids.length !== description.items || lists.rank !== this.rank || !fit) {
      throw new ModelError("the arrays and the items do not fit together");
    }
  }

  /** The number of an item: its position in `ids`. */
  number(item) {
    const number = this.numbers.get(String(item));
    if (number === undefined) throw new HistoryError(`the model does not know the item ${item}`);
    return number;
  }

  /** The title of an item. */
  title(item) {
    return this.titles?.[this.number(item)] ?? `Item ${item}`;
  }

  /**
   * The user's own offset and vector, behind `predict`. They describe the user: keep them as private as the history.
   * @returns {{offset: number, vector: Float64Array}}
   */
  foldIn(history) {
    return this.scoring.ratings.person(this.#read(history));
  }

  /** The score of every item, in the order of `ids`: what `recommend` orders by. */
  scores(history) {
    return this.#scores(this.#read(history));
  }

  /** Whether scores are predicted ratings; some models have scores of their own for lists. */
  get scoresAreRatings() {
    return this.description.predicts_ratings && this.scoring.ratings === this.scoring.lists;
  }

  /**
   * The n best items, best first.
   * @param {object} options
   * @param {number} [options.n] how many items.
   * @param {boolean} [options.excludeSeen] leave out items in the history.
   * @param {Iterable} [options.allow] only these items.
   * @param {Iterable} [options.deny] never these items.
   * @returns {{item: any, title: string, score: number}[]}
   */
  recommend(history, { n = 10, excludeSeen = true, allow = null, deny = null } = {}) {
    const seen = this.#read(history);
    return this.#named(this.#best(this.#scores(seen), { n, seen: excludeSeen ? seen : [], allow, deny }));
  }

  /** The predicted rating of each item, within the range of values; a score if the model predicts no ratings. */
  predict(history, items) {
    const {
      predicts_ratings: clip,
      value_range: [low, high],
    } = this.description;
    const predicted = this.scoring.predictions(this.#read(history));
    return items.map((item) => {
      const value = predicted(this.number(item));
      return clip ? Math.min(Math.max(value, low), high) : value;
    });
  }

  /** Items similar to another one, by the cosine of their vectors; by popularity if it has no vector. */
  similarItems(item, n = 10) {
    const at = this.number(item);
    const { columns, popularity } = this.arrays;
    const [from, to] = this.description.similar;
    const lengths = (row) => {
      let sum = 0;
      for (let k = from; k < to; k++) sum += columns[row * this.rank + k] ** 2;
      return Math.sqrt(sum);
    };
    const own = lengths(at);
    const scores = Float64Array.from(this.ids, (_, row) => {
      if (own === 0) return popularity[row];
      let sum = 0;
      for (let k = from; k < to; k++) sum += columns[row * this.rank + k] * columns[at * this.rank + k];
      if (to - from === 1) return sum; // all cosines are 1 or -1
      const length = lengths(row);
      return length > 0 ? sum / (length * own) : 0;
    });
    scores[at] = -Infinity;
    return this.#named({ scores, places: best(scores, n) });
  }

  /**
   * The contribution of each item of a history to the score of an item; with the baseline, they sum to the score.
   * @returns {{item: any, score: number, baseline: number, contributions: {item, title, rating, adds}[]}}
   */
  explain(history, item) {
    const rows = this.#read(history);
    const at = this.number(item);
    const { baseline, adds } = this.scoring.explained(rows, at);
    const contributions = rows
      .map(([number, rating], i) => ({
        item: this.ids[number],
        title: this.title(this.ids[number]),
        rating,
        adds: adds[i],
      }))
      .sort((a, b) => Math.abs(b.adds) - Math.abs(a.adds));
    return { item: this.ids[at], score: baseline + adds.reduce((sum, part) => sum + part, 0), baseline, contributions };
  }

  /** Compute the scores and predictions that came with the model; throws if they differ on this machine. */
  check() {
    const {
      value_range: [low, high],
      check,
    } = this.description;
    for (const { history, items, scores, predictions } of check) {
      const [score, predicted] = [this.scoring.scores(history), this.scoring.predictions(history)];
      const off = Math.max(
        ...items.map((item, i) => Math.abs(score(item) - scores[i])),
        ...items.map((item, i) => Math.abs(predicted(item) - predictions[i])),
      );
      if (!(off <= TOLERANCE * Math.max(high - low, 1))) {
        throw new ModelError(`scores differ by ${off} from those that came with the model; it was changed`);
      }
    }
  }

  // From here on, items are numbers: a history is an array of [number, rating].

  #read(history) {
    const {
      implicit,
      value_range: [low, high],
    } = this.description;
    const pairs = Array.isArray(history) || history instanceof Map ? [...history] : Object.entries(history);
    const rows = new Map();
    for (const pair of pairs) {
      const [item, given] = Array.isArray(pair) ? pair : [pair, high];
      const rating = implicit ? 1 : given;
      if (typeof rating !== "number" || !(rating >= low && rating <= high)) {
        throw new HistoryError(`a rating must be from ${low} to ${high}, not ${given}`);
      }
      const number = this.number(item);
      if (!rows.has(number)) rows.set(number, rating);
    }
    return [...rows].sort((a, b) => a[0] - b[0]);
  }

  #scores(rows) {
    const score = this.scoring.scores(rows);
    return Float64Array.from(this.ids, (_, at) => score(at));
  }

  #best(scores, { n, seen, allow, deny }) {
    const kept = Float64Array.from(scores);
    if (allow) {
      const allowed = new Set(Array.from(allow, (item) => this.number(item)));
      for (let at = 0; at < kept.length; at++) if (!allowed.has(at)) kept[at] = -Infinity;
    }
    for (const item of deny ?? []) kept[this.number(item)] = -Infinity;
    for (const [number] of seen) kept[number] = -Infinity;
    return { scores: kept, places: best(kept, n) };
  }

  #named({ scores, places }) {
    return places.map((at) => ({ item: this.ids[at], title: this.title(this.ids[at]), score: scores[at] }));
  }
}
