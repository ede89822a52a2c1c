// How one user is folded in: her own offset and vector, from her history and the public arrays of a model. It is the
// mathematics of discreet.web.folding in Python, where the three kinds are written down. A history is an array of
// [item number, rating].
import { ModelError } from "./files.js";
import { dot, solve } from "./linalg.js";

export class Folding {
  /**
   * @param {object} settings the part "folding" of model.json.
   * @param {object} arrays by name: columns, base, cold, and what the kind needs.
   * @param {number} rank the number of columns.
   */
  constructor(settings, arrays, rank) {
    Object.assign(this, { settings, arrays, rank });
  }

  /** A user's own offset and vector. */
  foldIn(rows) {
    switch (this.settings.kind) {
      case "ridge":
        return this.#ridge(rows);
      case "projection":
        return { offset: 0, vector: this.#loaded(rows, this.#shares(rows)) };
      case "sum":
        return this.#sum(rows);
      default:
        throw new ModelError(`the model folds users in by ${this.settings.kind}, which is not known here`);
    }
  }

  /** X^T X + gram + penalties of a user's regression, with a column of ones in front, if there is an offset. */
  #system(rows) {
    const { penalty, offset_penalty: onOffset } = this.settings;
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
    for (const [number] of prior ? rows : []) {
      for (let c = 0; c < this.rank; c++) centre[c] += prior[number * this.rank + c] / rows.length;
    }
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
    const { damping, spread } = this.settings;
    const about = rows.map(([number, rating]) => rating - this.arrays.base[number]);
    const count = Math.max(rows.length + (damping ?? 0), 1);
    return { about, share: damping === null ? 0 : 1 / count, scale: spread === null ? 1 : spread / count };
  }

  #sum(rows) {
    const { about, share, scale } = this.#centred(rows);
    const offset = about.reduce((sum, value) => sum + value, 0) * share;
    const shares = about.map((value) => (value - offset) * scale);
    return { offset, vector: this.#loaded(rows, shares) };
  }

  /** The score of every item. */
  scores(rows) {
    const { base, cold, columns } = this.arrays;
    const { offset, vector } = this.foldIn(rows);
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

  /** What each rating adds to the score of an item; they and what is expected add up to it. */
  contributions(rows, at) {
    const { columns, loadings } = this.arrays;
    const k = this.rank;
    const { kind } = this.settings;
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
}
