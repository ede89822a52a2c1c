// Scores of one user: her own offset and vector, from her history and the public arrays of a model. It is the mathematics
// of discreet.web.folding in Python, where all kinds are written down. A history is an array of [item number, rating].
import { ModelError } from "./files.js";
import { dot } from "./linalg.js";
import { Descent, FrankWolfe } from "./replay.js";
import { Frequent, Refits, Ridge } from "./ridge.js";
import { CentredSum, Projection } from "./sums.js";

const KINDS = {
  ridge: Ridge,
  frequent: Frequent,
  refits: Refits,
  projection: Projection,
  sum: CentredSum,
  "frank-wolfe": FrankWolfe,
  descent: Descent,
};

export class Folding {
  #kind;

  /**
   * @param {object} settings the part "folding" of model.json.
   * @param {object} arrays by name: columns, base, cold, and what the kind needs.
   * @param {number} rank the number of columns.
   */
  constructor(settings, arrays, rank) {
    Object.assign(this, { settings, arrays, rank });
    const Kind = Object.hasOwn(KINDS, settings.kind) ? KINDS[settings.kind] : null;
    if (!Kind) throw new ModelError(`the model folds users in by ${settings.kind}, which is not known here`);
    this.#kind = new Kind(settings, arrays, rank);
  }

  /** A user's own offset and vector. */
  foldIn(rows) {
    return this.#kind.foldIn(rows);
  }

  /** What each rating adds to the score of an item; they and what is expected add up to it. */
  contributions(rows, at) {
    return this.#kind.contributions(rows, at);
  }

  /** The score of every item. */
  scores(rows) {
    const { base, cold, columns } = this.arrays;
    const { offset, vector } = rows.length ? this.foldIn(rows) : { offset: 0, vector: new Float64Array(this.rank) };
    const expected = rows.length ? base : cold;
    const doubt = this.doubt(vector);
    const scores = new Float64Array(base.length);
    for (let at = 0; at < scores.length; at++) {
      scores[at] = expected[at] + offset + dot(columns, at, vector, this.rank) - doubt(at);
    }
    return scores;
  }

  /** What is taken from the score of an item that is not well known. */
  doubt(vector) {
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
