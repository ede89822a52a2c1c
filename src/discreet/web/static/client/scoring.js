// Scores of one person, from their history, an array of [item number, rating], and the public arrays of a model: the
// counterpart of discreet.web.scoring and discreet.models.fold_in in Python.
import { ModelError } from "./files.js";
import { dot } from "./linalg.js";
import { Linear } from "./linear.js";
import { Replay } from "./replay.js";
import { Ridge } from "./ridge.js";

const KINDS = new Map([
  ["ridge", Ridge],
  ["linear", Linear],
  ["replay", Replay],
]);
const RATINGS = "ratings."; // prefix of the arrays that are only for predictions

/** One way to fold a person in, with its arrays: columns, base, and what its kind needs. */
class FoldIn {
  #kind;

  constructor(settings, arrays) {
    const Kind = KINDS.get(settings.kind);
    if (!Kind) throw new ModelError(`the model folds people in by ${settings.kind}, which is not known here`);
    this.arrays = arrays;
    this.rank = arrays.columns.length / arrays.base.length;
    this.#kind = new Kind(settings, arrays, this.rank);
  }

  /** A person's own offset and vector. */
  person(rows) {
    return rows.length ? this.#kind.foldIn(rows) : { offset: 0, vector: new Float64Array(this.rank) };
  }

  /** The predicted value of an item, by its number, from a person's offset and vector. */
  expected({ offset, vector }, base = this.arrays.base) {
    return (at) => base[at] + offset + dot(this.arrays.columns, at, vector, this.rank);
  }

  /** The contribution of each rating to the predicted value of an item; with `base`, they sum to it. */
  contributions(rows, at) {
    return rows.length ? this.#kind.contributions(rows, at) : [];
  }
}

export class Scoring {
  /**
   * @param {object} settings the part "scoring" of model.json.
   * @param {object} arrays by name: columns, base, cold, and what the kind of fold-in needs.
   */
  constructor(settings, arrays) {
    Object.assign(this, { settings, arrays });
    /** For lists. */
    this.lists = new FoldIn(settings.fold_in, arrays);
    /** For predictions. */
    this.ratings = settings.ratings ? new FoldIn(settings.ratings, within(arrays, RATINGS)) : this.lists;
  }

  /** The prediction of each item, by its number; not clipped to the range of values. */
  predictions(rows) {
    return this.ratings.expected(this.ratings.person(rows));
  }

  /** The score of each item, by its number. */
  scores(rows) {
    const person = this.lists.person(rows);
    const expected = this.lists.expected(person, this.#base(rows));
    const deduction = this.#deduction(person);
    return (at) => expected(at) - deduction(at);
  }

  /** The score of an item without the contributions of a history, and these; they add up to the score. */
  explained(rows, at) {
    const baseline = this.#base(rows)[at] - this.#deduction(this.lists.person(rows))(at);
    return { baseline, adds: this.lists.contributions(rows, at) };
  }

  #base(rows) {
    return rows.length ? this.arrays.base : this.arrays.cold;
  }

  /** The amount subtracted from an item's score for its uncertainty: `caution` standard deviations. */
  #deduction({ vector }) {
    const { caution } = this.settings;
    const { variance } = this.arrays;
    if (!caution) return () => 0;
    const { rank } = this.lists;
    const squares = vector.map((value) => value * value);
    const width = rank + 1;
    return (at) => {
      let sum = variance[at * width];
      for (let c = 0; c < rank; c++) sum += variance[at * width + 1 + c] * squares[c];
      return caution * Math.sqrt(sum);
    };
  }
}

/** The arrays whose names begin with a prefix, without it. */
function within(arrays, prefix) {
  const found = Object.entries(arrays).filter(([name]) => name.startsWith(prefix));
  return Object.fromEntries(found.map(([name, array]) => [name.slice(prefix.length), array]));
}
