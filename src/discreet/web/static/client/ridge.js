// Users who are folded in by ridge regressions of their own: "ridge", "frequent" and "refits" of discreet.web.folding.
import { dot, solve } from "./linalg.js";
import { logistic, steepness } from "./losses.js";

const ratingsOf = (rows) => rows.map(([, rating]) => rating);

/** One regression: with an offset or without, pulled to zero or to a prior. */
export class Ridge {
  constructor(settings, arrays, rank) {
    Object.assign(this, { settings, arrays, rank, width: rank - (settings.own_mean ? 1 : 0) });
  }

  foldIn(rows) {
    return this.solved(rows, ratingsOf(rows));
  }

  /** What each rating adds to the score of an item; they and what is expected add up to it. */
  contributions(rows, at) {
    return this.regressed(rows, ratingsOf(rows), at);
  }

  /** X^T X + gram + penalties, where X has the first k columns times a factor, and ones in front for an offset. */
  #system(rows, k, factor) {
    const { penalty, offset_penalty: onOffset } = this.settings;
    const { columns, gram } = this.arrays;
    const first = onOffset === null ? 0 : 1;
    const n = k + first;
    const scale = (penalty.scale * Math.max(rows.length, 1) ** penalty.exponent) / penalty.normaliser;
    const X = new Float64Array(rows.length * n);
    rows.forEach(([number], i) => {
      if (first) X[i * n] = 1;
      for (let c = 0; c < k; c++) X[i * n + first + c] = columns[number * this.rank + c] * factor;
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
    for (const [number] of prior ? rows : []) {
      for (let c = 0; c < this.rank; c++) centre[c] += prior[number * this.rank + c] / rows.length;
    }
    return centre;
  }

  /** The offset and the vector that fit these aims, one for each row, along the first k columns times a factor. */
  solved(rows, aims, k = this.width, factor = 1) {
    const { base, columns } = this.arrays;
    const vector = this.#centre(rows);
    const { A, X, n, first } = this.#system(rows, k, factor);
    if (!rows.length || !n) return { offset: 0, vector };
    const b = new Float64Array(n);
    rows.forEach(([number], i) => {
      const left = aims[i] - base[number] - dot(columns, number, vector, this.rank);
      for (let c = 0; c < n; c++) b[c] += X[i * n + c] * left;
    });
    const w = solve(A, b, n);
    for (let c = 0; c < k; c++) vector[c] += w[first + c] * factor;
    return { offset: first ? w[0] : 0, vector };
  }

  /** What each aim adds to the score of an item: base + x . A^-1 X^T t, a sum over the aims t less what is expected. */
  regressed(rows, aims, at) {
    const { base, columns, prior } = this.arrays;
    const k = this.width;
    const { A, X, n, first } = this.#system(rows, k, 1);
    if (!n) return rows.map(() => 0);
    const aimed = new Float64Array(n);
    if (first) aimed[0] = 1;
    for (let c = 0; c < k; c++) aimed[first + c] = columns[at * this.rank + c];
    const found = solve(A, aimed, n);
    const weights = rows.map((_, i) => dot(X, i, found, n));
    const adds = rows.map(([number], i) => weights[i] * (aims[i] - base[number]));
    if (!prior) return adds;
    const left = aimed.slice(first); // of the item's own vector, what the ratings do not speak for
    weights.forEach((weight, i) => {
      for (let c = 0; c < k; c++) left[c] -= weight * X[i * n + first + c];
    });
    return adds.map((part, i) => part + dot(prior, rows[i][0], left, k) / rows.length);
  }
}

/** A regression on frequent items alone; to others a user gives her own mean, which is the last of her vector, or 0. */
export class Frequent extends Ridge {
  #known(rows) {
    return rows.filter(([number]) => this.arrays.frequent[number]);
  }

  #means(rows) {
    return rows.map(([number, rating]) => (rating - this.arrays.base[number]) / rows.length);
  }

  foldIn(rows) {
    const { offset, vector } = super.foldIn(this.#known(rows));
    if (this.settings.own_mean) vector[this.rank - 1] = this.#means(rows).reduce((sum, part) => sum + part, 0);
    return { offset, vector };
  }

  contributions(rows, at) {
    const { frequent } = this.arrays;
    if (!frequent[at]) return this.settings.own_mean ? this.#means(rows) : rows.map(() => 0);
    const adds = super.contributions(this.#known(rows), at);
    return rows.map(([number]) => (frequent[number] ? adds.shift() : 0));
  }
}

/** Regressions one after another, each of aims that the last one's fit and the loss set. */
export class Refits extends Ridge {
  #aim(rating, fitted, expected) {
    const { loss } = this.settings;
    if (loss.name === "bits") {
      const sign = Math.fround(rating) >= loss.threshold ? 1 : -1;
      const x = (sign * (fitted - loss.threshold)) / loss.unit;
      return fitted + (loss.unit * sign * steepness(loss, x)) / loss.curvature;
    }
    const about = fitted - expected;
    return fitted - logistic(about, loss.width) * about + rating - loss.centre;
  }

  #last(rows) {
    const { base, columns } = this.arrays;
    let fitted = rows.map(([number]) => base[number]);
    let aims = [];
    let found = { offset: 0, vector: new Float64Array(this.rank) };
    for (const [k, factor] of this.settings.rounds) {
      aims = rows.map(([number, rating], i) => this.#aim(rating, fitted[i], base[number]));
      found = this.solved(rows, aims, k, factor);
      fitted = rows.map(([number]) => base[number] + found.offset + dot(columns, number, found.vector, this.rank));
    }
    return { found, aims };
  }

  foldIn(rows) {
    return this.#last(rows).found;
  }

  contributions(rows, at) {
    return this.regressed(rows, this.#last(rows).aims, at);
  }
}
