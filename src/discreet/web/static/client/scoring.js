// Scores of one person: their own offset and vector, from their history and the public arrays of a model. It is what
// discreet.web.scoring and discreet.models.fold_in do in Python. A history is an array of [item number, rating].
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

export class Scoring {
  #foldIn;

  /**
   * @param {object} settings the part "scoring" of model.json.
   * @param {object} arrays by name: columns, base, cold, and what the kind of fold-in needs.
   * @param {number} rank the number of columns.
   */
  constructor(settings, arrays, rank) {
    Object.assign(this, { settings, arrays, rank });
    const { kind } = settings.fold_in;
    const Kind = KINDS.get(kind);
    if (!Kind) throw new ModelError(`the model folds people in by ${kind}, which is not known here`);
    this.#foldIn = new Kind(settings.fold_in, arrays, rank);
  }

  /** A person's own offset and vector. */
  foldIn(rows) {
    return this.#foldIn.foldIn(rows);
  }

  /** What each rating adds to the score of an item; they and what is expected add up to it. */
  contributions(rows, at) {
    return this.#foldIn.contributions(rows, at);
  }

  /** The score of every item. */
  scores(rows) {
    const { base, cold, columns } = this.arrays;
    const { offset, vector } = rows.length ? this.foldIn(rows) : { offset: 0, vector: new Float64Array(this.rank) };
    const expected = rows.length ? base : cold;
    const deduction = this.deduction(vector);
    const scores = new Float64Array(base.length);
    for (let at = 0; at < scores.length; at++) {
      scores[at] = expected[at] + offset + dot(columns, at, vector, this.rank) - deduction(at);
    }
    return scores;
  }

  /** What is subtracted from the score of an item that is not well known: `caution` standard deviations. */
  deduction(vector) {
    const { caution } = this.settings;
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
}
