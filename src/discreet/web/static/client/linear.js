// A person's vector is a sum over their history: LinearFoldIn in Python.
import { dot, total } from "./linalg.js";

export class Linear {
  constructor(settings, arrays, rank) {
    Object.assign(this, { settings, arrays, rank });
  }

  foldIn(rows) {
    const { loadings } = this.arrays;
    const { amounts, share, scale } = this.#shares(rows);
    const offset = total(amounts) * share;
    const vector = new Float64Array(this.rank);
    rows.forEach(([number], i) => {
      const entry = (amounts[i] - offset) * scale;
      for (let c = 0; c < this.rank; c++) vector[c] += entry * loadings[number * this.rank + c];
    });
    return { offset, vector };
  }

  /** A rating contributes directly, and through its share in the offset. */
  contributions(rows, at) {
    const { amounts, share, scale } = this.#shares(rows);
    const aimed = this.arrays.columns.subarray(at * this.rank, (at + 1) * this.rank);
    const loads = rows.map(([number]) => dot(this.arrays.loadings, number, aimed, this.rank) * scale);
    const rest = share * (1 - total(loads));
    return amounts.map((amount, i) => amount * (loads[i] + rest));
  }

  /** The amount of each item in a history, its factor in the offset, and the factor of the vector. */
  #shares(rows) {
    const { damping, spread } = this.settings;
    const n = Math.max(rows.length + (damping ?? 0), 1);
    return {
      amounts: this.arrays.weights ? this.#weighed(rows) : rows.map(([at, rating]) => rating - this.arrays.base[at]),
      share: damping === null ? 0 : 1 / n,
      scale: spread === null ? 1 : spread / n,
    };
  }

  /** Weights of the items, times the grades of their ratings, scaled to norm 1, or 0 if no item counts. */
  #weighed(rows) {
    const grade = this.#grading(rows);
    const weights = rows.map(([number, rating]) => this.arrays.weights[number] * grade(rating));
    const length = Math.sqrt(total(weights.map((weight) => weight * weight)));
    return weights.map((weight) => (length > 0 ? weight / length : 0));
  }

  /** Grades of ratings, relative to the person's own shrunken mean: Grading in Python. */
  #grading(rows) {
    const { grading } = this.settings;
    if (!grading) return () => 1;
    const about = ([, rating]) => rating - grading.mean;
    const own = grading.mean + total(rows.map(about)) / (rows.length + grading.shrinkage);
    return (rating) => Math.max(1 + grading.slope * (rating - own), 0);
  }
}
