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

  /** A rating counts by itself, and by its share in the offset. */
  contributions(rows, at) {
    const { amounts, share, scale } = this.#shares(rows);
    const aimed = this.arrays.columns.subarray(at * this.rank, (at + 1) * this.rank);
    const loads = rows.map(([number]) => dot(this.arrays.loadings, number, aimed, this.rank) * scale);
    const rest = share * (1 - total(loads));
    return amounts.map((amount, i) => amount * (loads[i] + rest));
  }

  /** How much each item of a history counts; the part of that in the offset; what the vector is multiplied by. */
  #shares(rows) {
    const { damping, spread } = this.settings;
    const n = Math.max(rows.length + (damping ?? 0), 1);
    return {
      amounts: this.arrays.weights ? this.#weighed(rows) : rows.map(([at, rating]) => rating - this.arrays.base[at]),
      share: damping === null ? 0 : 1 / n,
      scale: spread === null ? 1 : spread / n,
    };
  }

  /** Weights of the items, whatever was said of them: of length 1 together, or 0 if none of them counts. */
  #weighed(rows) {
    const weights = rows.map(([number]) => this.arrays.weights[number]);
    const length = Math.sqrt(total(weights.map((weight) => weight * weight)));
    return weights.map((weight) => (length > 0 ? weight / length : 0));
  }
}
