// A person runs a ridge regression of their ratings on the items' columns: RidgeFoldIn in Python.
import { dot, solve, total } from "./linalg.js";
import { target } from "./losses.js";

export class Ridge {
  constructor(settings, arrays, rank) {
    Object.assign(this, { settings, arrays, rank, width: rank - (settings.own_mean ? 1 : 0) });
  }

  foldIn(rows) {
    const { offset, vector } = this.#fitted(this.#known(rows)).found;
    if (this.settings.own_mean) vector[this.rank - 1] = total(this.#means(rows));
    return { offset, vector };
  }

  /** Targets are held fixed at those for the whole history. */
  contributions(rows, at) {
    const { frequent } = this.arrays;
    if (frequent && !frequent[at]) return this.settings.own_mean ? this.#means(rows) : rows.map(() => 0);
    const known = this.#known(rows);
    const adds = this.#explained(known, this.#fitted(known).targets, at);
    return rows.map(([number]) => (!frequent || frequent[number] ? adds.shift() : 0));
  }

  /** The rows that are part of the regression. */
  #known(rows) {
    const { frequent } = this.arrays;
    return frequent ? rows.filter(([number]) => frequent[number]) : rows;
  }

  /** Each rating's contribution to the person's own mean, which is the score of items that are not frequent. */
  #means(rows) {
    return rows.map(([number, rating]) => (rating - this.arrays.base[number]) / rows.length);
  }

  /** The last of several regressions, whose targets follow from the loss and the previous fit. */
  #fitted(rows) {
    const { loss, rounds } = this.settings;
    const { base, columns } = this.arrays;
    let fitted = rows.map(([number]) => base[number]);
    let targets = [];
    let found = { offset: 0, vector: new Float64Array(this.rank) };
    for (const [k, factor] of rounds) {
      targets = rows.map(([number, rating], i) => target(loss, rating, fitted[i], base[number]));
      found = this.#solved(rows, targets, k, factor);
      fitted = rows.map(([number]) => base[number] + found.offset + dot(columns, number, found.vector, this.rank));
    }
    return { found, targets };
  }

  /** X^T X + gram + penalties, where X has the first k columns times a factor, after a column of ones for an offset. */
  #system(rows, k, factor) {
    const { penalty, offset_penalty: onOffset } = this.settings;
    const { columns, gram } = this.arrays;
    const first = onOffset === null ? 0 : 1;
    const n = k + first;
    const growing = (penalty.scale * Math.max(rows.length, 1) ** penalty.exponent) / penalty.normaliser;
    const scale = penalty.constant + growing;
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

  /** The prior mean of a vector: the mean of the items' priors and of some zeros. */
  #center(rows) {
    const { prior } = this.arrays;
    const count = rows.length + this.settings.prior_count;
    const center = new Float64Array(this.rank);
    for (const [number] of prior ? rows : []) {
      for (let c = 0; c < this.rank; c++) center[c] += prior[number * this.rank + c] / count;
    }
    return center;
  }

  /** The offset and the vector that fit these targets, one for each row, along the first k columns times a factor. */
  #solved(rows, targets, k, factor) {
    const { base, columns } = this.arrays;
    const vector = this.#center(rows);
    const { A, X, n, first } = this.#system(rows, k, factor);
    if (!rows.length || !n) return { offset: 0, vector };
    const b = new Float64Array(n);
    rows.forEach(([number], i) => {
      const left = targets[i] - base[number] - dot(columns, number, vector, this.rank);
      for (let c = 0; c < n; c++) b[c] += X[i * n + c] * left;
    });
    const w = solve(A, b, n);
    for (let c = 0; c < k; c++) vector[c] += w[first + c] * factor;
    return { offset: first ? w[0] : 0, vector };
  }

  /** The contribution of each target t to the score of an item: base + x . A^-1 X^T (t - base), and the prior part. */
  #explained(rows, targets, at) {
    const { base, columns, prior } = this.arrays;
    const k = this.width;
    const { A, X, n, first } = this.#system(rows, k, 1);
    if (!n) return rows.map(() => 0);
    const aimed = new Float64Array(n);
    if (first) aimed[0] = 1;
    for (let c = 0; c < k; c++) aimed[first + c] = columns[at * this.rank + c];
    const found = solve(A, aimed, n);
    const weights = rows.map((_, i) => dot(X, i, found, n));
    const adds = rows.map(([number], i) => weights[i] * (targets[i] - base[number]));
    if (!prior) return adds;
    const left = aimed.slice(first); // the part of the item's own vector that the ratings do not explain
    weights.forEach((weight, i) => {
      for (let c = 0; c < k; c++) left[c] -= weight * X[i * n + first + c];
    });
    const count = rows.length + this.settings.prior_count;
    return adds.map((part, i) => part + dot(prior, rows[i][0], left, k) / count);
  }
}
