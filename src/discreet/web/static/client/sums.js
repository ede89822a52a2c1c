// Users who are folded in by a sum over their history: "projection" and "sum" of discreet.web.folding.
import { dot } from "./linalg.js";

class Sum {
  constructor(settings, arrays, rank) {
    Object.assign(this, { settings, arrays, rank });
  }

  /** The sum of what the items of a history load, each times its share. */
  loaded(rows, shares) {
    const { loadings } = this.arrays;
    const vector = new Float64Array(this.rank);
    rows.forEach(([number], i) => {
      for (let c = 0; c < this.rank; c++) vector[c] += shares[i] * loadings[number * this.rank + c];
    });
    return vector;
  }

  /** What each of them then adds to the score of an item, were its share 1. */
  loads(rows, at) {
    const aimed = this.arrays.columns.subarray(at * this.rank, (at + 1) * this.rank);
    return rows.map(([number]) => dot(this.arrays.loadings, number, aimed, this.rank));
  }
}

/** Items count by public weights, whatever was said of them. */
export class Projection extends Sum {
  /** How much each item of a history counts in it: of length 1 together, or 0 if none of them counts. */
  #shares(rows) {
    const weights = rows.map(([number]) => this.arrays.weights[number]);
    const length = Math.sqrt(weights.reduce((sum, weight) => sum + weight * weight, 0));
    return weights.map((weight) => (length > 0 ? weight / length : 0));
  }

  foldIn(rows) {
    return { offset: 0, vector: this.loaded(rows, this.#shares(rows)) };
  }

  contributions(rows, at) {
    const loads = this.loads(rows, at);
    return this.#shares(rows).map((share, i) => share * loads[i]);
  }
}

/** Ratings count, about what is expected and the user's own mean. */
export class CentredSum extends Sum {
  /** Ratings without what is expected; the part of each in the offset; what vectors are multiplied by. */
  #centred(rows) {
    const { damping, spread } = this.settings;
    const about = rows.map(([number, rating]) => rating - this.arrays.base[number]);
    const count = Math.max(rows.length + (damping ?? 0), 1);
    return { about, share: damping === null ? 0 : 1 / count, scale: spread === null ? 1 : spread / count };
  }

  foldIn(rows) {
    const { about, share, scale } = this.#centred(rows);
    const offset = about.reduce((sum, value) => sum + value, 0) * share;
    const shares = about.map((value) => (value - offset) * scale);
    return { offset, vector: this.loaded(rows, shares) };
  }

  contributions(rows, at) {
    const loads = this.loads(rows, at);
    const { about, share, scale } = this.#centred(rows);
    const all = loads.reduce((sum, load) => sum + load * scale, 0);
    return about.map((value, i) => value * (loads[i] * scale + share * (1 - all)));
  }
}
