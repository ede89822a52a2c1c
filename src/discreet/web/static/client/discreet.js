/**
 * Recommendations from a model that `discreet export` wrote, computed where the user is. Nothing she says is sent
 * anywhere: after `Model.load` this module makes no request, and it never stores anything.
 *
 *     import { Model } from "./discreet.js";
 *     const model = await Model.load("model/");
 *     model.recommend({ tt0111161: 5, tt0068646: 4.5 }, { n: 10 });
 *
 * A history is an object {item: rating}, a Map, an array of [item, rating] pairs, or, for liked items, an array of
 * items. The mathematics is that of discreet.web.folding in Python, and agrees with it to 1e-5.
 */
import { best, decoded, dot, solve } from "./linalg.js";

export const FORMAT = "discreet-web";
export const VERSION = 1;
const TOLERANCE = 1e-5; // of scores, relative to the range of values

/** What is wrong with a model that cannot be used; the message says it to a person. */
export class ModelError extends Error {}

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
      throw error instanceof ModelError ? error : new ModelError(`the files do not make a model (${error.message})`);
    }
    model.check();
    return model;
  }

  /** From what the three files hold; `Model.load` is the way to get them. */
  constructor(description, buffer, items) {
    /** What model.json says: title, value_range, implicit, privacy, loss, tradeoff and more. */
    this.description = description;
    /** Item ids, in their own type. Everywhere an item is asked for, its text will do. */
    this.ids = items.ids;
    /** What people call the items, or null. */
    this.titles = items.titles;
    /** Other public columns of the catalogue, by name. */
    this.columns = items.columns;
    this.rank = description.rank;
    this.arrays = {};
    for (const [name, entry] of Object.entries(description.arrays)) this.arrays[name] = decoded(buffer, entry);
    for (const [name, { factors, shape }] of Object.entries(description.arrays)) {
      if (factors) this.arrays[name] = scaled(this.arrays[name], shape, ...factors.map((factor) => this.arrays[factor]));
    }
    this.numbers = new Map(this.ids.map((id, number) => [String(id), number]));
    if (this.ids.length !== description.items || this.arrays.columns.length !== description.items * this.rank) {
      throw new ModelError("the arrays and the items do not fit together");
    }
  }

  /** The number of an item, its place in `ids`. */
  number(item) {
    const number = this.numbers.get(String(item));
    if (number === undefined) throw new HistoryError(`the model does not know the item ${item}`);
    return number;
  }

  /** What an item is called. */
  title(item) {
    return this.titles?.[this.number(item)] ?? `Item ${item}`;
  }

  /**
   * The user's own offset and vector. They describe her: keep them where her history is.
   * @returns {{offset: number, vector: Float64Array}}
   */
  foldIn(history) {
    return this.#foldIn(this.#read(history));
  }

  /** The score of every item, in the order of `ids`: the rating that is expected, not cut to the range of values. */
  scores(history) {
    return this.#scores(this.#read(history));
  }

  /**
   * The n best items, best first.
   * @param {object} options
   * @param {number} [options.n] how many.
   * @param {boolean} [options.excludeSeen] leave out what is in the history.
   * @param {Iterable} [options.allow] only these items.
   * @param {Iterable} [options.deny] never these items.
   * @returns {{item: any, title: string, score: number}[]}
   */
  recommend(history, { n = 10, excludeSeen = true, allow = null, deny = null } = {}) {
    const seen = this.#read(history);
    return this.#named(this.#best(this.#scores(seen), { n, seen: excludeSeen ? seen : [], allow, deny }));
  }

  /** The rating that each item would get, within the range of values; a score for implicit feedback. */
  predict(history, items) {
    const { implicit, value_range: [low, high] } = this.description;
    const rows = this.#read(history);
    const { offset, vector } = this.#foldIn(rows);
    return items.map((item) => {
      const at = this.number(item);
      const score = this.arrays.base[at] + offset + dot(this.arrays.columns, at, vector, this.rank);
      return implicit ? score : Math.min(Math.max(score, low), high);
    });
  }

  /** Items that are like another, by the cosine of their vectors; by popularity if it has none. */
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
      const length = lengths(row);
      return length > 0 ? sum / (length * own) : 0;
    });
    scores[at] = -Infinity;
    return this.#named({ scores, places: best(scores, n) });
  }

  /**
   * What each item of a history adds to the score of an item; the contributions and the baseline add up to it.
   * @returns {{item: any, score: number, baseline: number, contributions: {item, title, rating, adds}[]}}
   */
  explain(history, item) {
    const rows = this.#read(history);
    const at = this.number(item);
    const doubt = this.#doubt(this.#foldIn(rows).vector);
    const baseline = (rows.length ? this.arrays.base[at] : this.arrays.cold[at]) - doubt(at);
    const adds = rows.length ? this.#contributions(rows, at) : [];
    const contributions = rows
      .map(([number, rating], i) => ({ item: this.ids[number], title: this.title(this.ids[number]), rating, adds: adds[i] }))
      .sort((a, b) => Math.abs(b.adds) - Math.abs(a.adds));
    return { item: this.ids[at], score: baseline + adds.reduce((sum, part) => sum + part, 0), baseline, contributions };
  }

  /** Compute the scores that came with the model; throws if this machine gets others. */
  check() {
    const { value_range: [low, high], check } = this.description;
    for (const { history, items, scores } of check) {
      const found = this.#scores(history);
      const off = Math.max(...items.map((item, i) => Math.abs(found[item] - scores[i])));
      if (!(off <= TOLERANCE * Math.max(high - low, 1))) {
        throw new ModelError(`scores differ by ${off} from those that came with the model; it was changed`);
      }
    }
  }

  // From here on, items are numbers: a history is an array of [number, rating].

  #read(history) {
    const { implicit, value_range: [low, high] } = this.description;
    const pairs = Array.isArray(history) || history instanceof Map ? [...history] : Object.entries(history);
    const rows = new Map();
    for (const pair of pairs) {
      const [item, given] = Array.isArray(pair) ? pair : [pair, high];
      const rating = implicit ? 1 : given;
      if (typeof rating !== "number" || !(rating >= low && rating <= high)) {
        throw new HistoryError(`a rating from ${low} to ${high} is needed, not ${given}`);
      }
      const number = this.number(item);
      if (!rows.has(number)) rows.set(number, rating);
    }
    return [...rows].sort((a, b) => a[0] - b[0]);
  }

  #foldIn(rows) {
    switch (this.description.folding.kind) {
      case "ridge":
        return this.#ridge(rows);
      case "projection":
        return { offset: 0, vector: this.#loaded(rows, this.#shares(rows)) };
      case "sum":
        return this.#sum(rows);
      default:
        throw new ModelError(`the model folds users in by ${this.description.folding.kind}, which is not known here`);
    }
  }

  /** X^T X + gram + penalties of a user's regression, with a column of ones for the offset in front, if there is one. */
  #system(rows) {
    const { penalty, offset_penalty: onOffset } = this.description.folding;
    const { columns, gram } = this.arrays;
    const k = this.rank;
    const first = onOffset === null ? 0 : 1;
    const n = k + first;
    const scale = (penalty.scale * Math.max(rows.length, 1) ** penalty.exponent) / penalty.normaliser;
    const X = new Float64Array(rows.length * n);
    rows.forEach(([number], i) => {
      if (first) X[i * n] = 1;
      for (let c = 0; c < k; c++) X[i * n + first + c] = columns[number * k + c];
    });
    const A = new Float64Array(n * n);
    for (let i = 0; i < rows.length; i++) {
      for (let r = 0; r < n; r++) {
        const x = X[i * n + r];
        for (let c = 0; c <= r; c++) A[r * n + c] += x * X[i * n + c];
      }
    }
    for (let r = 0; r < n; r++) {
      A[r * n + r] += r < first ? onOffset : scale;
      for (let c = first; gram && r >= first && c <= r; c++) A[r * n + c] += gram[(r - first) * k + (c - first)];
    }
    return { A, X, n, first };
  }

  /** What a user's vector is pulled to: the mean of what her items foretell. */
  #centre(rows) {
    const { prior } = this.arrays;
    const centre = new Float64Array(this.rank);
    if (prior) for (const [number] of rows) for (let c = 0; c < this.rank; c++) centre[c] += prior[number * this.rank + c] / rows.length;
    return centre;
  }

  #ridge(rows) {
    const { base, columns } = this.arrays;
    const vector = this.#centre(rows);
    const { A, X, n, first } = this.#system(rows);
    if (!rows.length || !n) return { offset: 0, vector };
    const b = new Float64Array(n);
    rows.forEach(([number, rating], i) => {
      const left = rating - base[number] - dot(columns, number, vector, this.rank);
      for (let c = 0; c < n; c++) b[c] += X[i * n + c] * left;
    });
    const w = solve(A, b, n);
    for (let c = 0; c < this.rank; c++) vector[c] += w[first + c];
    return { offset: first ? w[0] : 0, vector };
  }

  /** How much each item of a history counts in it: of length 1 together, or 0 if none of them counts. */
  #shares(rows) {
    const weights = rows.map(([number]) => this.arrays.weights[number]);
    const length = Math.sqrt(weights.reduce((sum, weight) => sum + weight * weight, 0));
    return weights.map((weight) => (length > 0 ? weight / length : 0));
  }

  #loaded(rows, shares) {
    const { loadings } = this.arrays;
    const vector = new Float64Array(this.rank);
    rows.forEach(([number], i) => {
      for (let c = 0; c < this.rank; c++) vector[c] += shares[i] * loadings[number * this.rank + c];
    });
    return vector;
  }

  /** Ratings without what is expected; the part of each in the offset; what vectors are multiplied by. */
  #centred(rows) {
    const { damping, spread } = this.description.folding;
    const about = rows.map(([number, rating]) => rating - this.arrays.base[number]);
    const count = Math.max(rows.length + (damping ?? 0), 1);
    return { about, share: damping === null ? 0 : 1 / count, scale: spread === null ? 1 : spread / count };
  }

  #sum(rows) {
    const { about, share, scale } = this.#centred(rows);
    const offset = about.reduce((sum, value) => sum + value, 0) * share;
    return { offset, vector: this.#loaded(rows, about.map((value) => (value - offset) * scale)) };
  }

  #scores(rows) {
    const { base, cold, columns } = this.arrays;
    const { offset, vector } = this.#foldIn(rows);
    const expected = rows.length ? base : cold;
    const doubt = this.#doubt(vector);
    const scores = new Float64Array(this.ids.length);
    for (let at = 0; at < scores.length; at++) {
      scores[at] = expected[at] + offset + dot(columns, at, vector, this.rank) - doubt(at);
    }
    return scores;
  }

  /** What is taken from the score of an item that is not well known. */
  #doubt(vector) {
    const { caution } = this.description.folding;
    const { variance } = this.arrays;
    if (!caution) return () => 0;
    const squares = vector.map((value) => value * value);
    const width = this.rank + 1;
    return (at) => {
      let sum = variance[at * width];
      for (let c = 0; c < this.rank; c++) sum += variance[at * width + 1 + c] * squares[c];
      return caution * Math.sqrt(sum);
    };
  }

  #contributions(rows, at) {
    const { columns, loadings } = this.arrays;
    const k = this.rank;
    const { kind } = this.description.folding;
    if (kind === "ridge") return this.#regressed(rows, at);
    const aimed = columns.subarray(at * k, (at + 1) * k);
    const loads = rows.map(([number]) => dot(loadings, number, aimed, k));
    if (kind === "projection") return this.#shares(rows).map((share, i) => share * loads[i]);
    const { about, share, scale } = this.#centred(rows);
    const all = loads.reduce((sum, load) => sum + load * scale, 0);
    return about.map((value, i) => value * (loads[i] * scale + share * (1 - all)));
  }

  /** Contributions to a regression: the score is base + x . A^-1 X^T t, a sum over the ratings t. */
  #regressed(rows, at) {
    const { base, columns, prior } = this.arrays;
    const k = this.rank;
    const { A, X, n, first } = this.#system(rows);
    if (!n) return rows.map(() => 0);
    const aimed = new Float64Array(n);
    if (first) aimed[0] = 1;
    for (let c = 0; c < k; c++) aimed[first + c] = columns[at * k + c];
    const solved = solve(A, aimed, n);
    const weights = rows.map((_, i) => dot(X, i, solved, n));
    const adds = rows.map(([number, rating], i) => weights[i] * (rating - base[number]));
    if (!prior) return adds;
    const left = aimed.slice(first); // of the item's own vector, what the ratings do not speak for
    weights.forEach((weight, i) => {
      for (let c = 0; c < k; c++) left[c] -= weight * X[i * n + first + c];
    });
    return adds.map((part, i) => part + dot(prior, rows[i][0], left, k) / rows.length);
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

async function read(get, url) {
  const name = url.pathname.split("/").pop();
  let answer;
  try {
    answer = await get(url);
  } catch {
    throw new ModelError(`${name} could not be fetched; is the server there?`);
  }
  if (!answer.ok) throw new ModelError(`${name} could not be fetched: the server says ${answer.status}`);
  return answer.arrayBuffer();
}

function parsed(name, buffer) {
  try {
    return JSON.parse(new TextDecoder().decode(buffer));
  } catch {
    throw new ModelError(`${name} is not proper JSON; it was cut off or changed`);
  }
}

/** Compare a file with what model.json says of it: its size, and where the browser lets us (https), its digest. */
async function requireUnchanged(name, buffer, entry) {
  const changed = new ModelError(`${name} is not the file that was exported; export the model again`);
  if (buffer.byteLength !== entry?.size) throw changed;
  if (!globalThis.crypto?.subtle) return;
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", buffer));
  if (Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("") !== entry.sha256) throw changed;
}

/** Numbers of an int8 table: steps times a factor for the row and one for the column. */
function scaled(steps, [, k], rows, columns) {
  return Float32Array.from(steps, (step, at) => step * rows[Math.floor(at / k)] * columns[at % k]);
}
