// The linear algebra for folding in one user. Matrices are row-major, numbers are doubles.

/** Solve A x = b for a symmetric positive definite A of size n x n, by Cholesky. A is overwritten. */
export function solve(A, b, n) {
  const x = Float64Array.from(b);
  for (let i = 0; i < n; i++) {
    for (let j = 0; j <= i; j++) {
      let sum = A[i * n + j];
      for (let k = 0; k < j; k++) sum -= A[i * n + k] * A[j * n + k];
      if (i !== j) A[i * n + j] = sum / A[j * n + j];
      else if (sum > 0) A[i * n + i] = Math.sqrt(sum);
      else throw new RangeError("the regression has no unique solution");
    }
  }
  for (let i = 0; i < n; i++) {
    let sum = x[i];
    for (let k = 0; k < i; k++) sum -= A[i * n + k] * x[k];
    x[i] = sum / A[i * n + i];
  }
  for (let i = n - 1; i >= 0; i--) {
    let sum = x[i];
    for (let k = i + 1; k < n; k++) sum -= A[k * n + i] * x[k];
    x[i] = sum / A[i * n + i];
  }
  return x;
}

/** The sum of an array. */
export const total = (values) => values.reduce((sum, value) => sum + value, 0);

/** The inner product of row `row` of a table with `k` columns and a vector. */
export function dot(table, row, vector, k) {
  let sum = 0;
  for (let i = 0, at = row * k; i < k; i++, at++) sum += table[at] * vector[i];
  return sum;
}

/** The positions of the n largest scores, largest first; ties go to the earlier one. Minus infinity is left out. */
export function best(scores, n) {
  const heap = []; // positions, with the worst of those kept on top
  const worse = (a, b) => scores[a] < scores[b] || (scores[a] === scores[b] && a > b);
  const sink = (at) => {
    for (;;) {
      let least = at;
      for (const child of [2 * at + 1, 2 * at + 2]) {
        if (child < heap.length && worse(heap[child], heap[least])) least = child;
      }
      if (least === at) return;
      [heap[at], heap[least]] = [heap[least], heap[at]];
      at = least;
    }
  };
  for (let i = 0; i < scores.length; i++) {
    if (scores[i] === -Infinity) continue;
    if (heap.length < n) {
      heap.push(i);
      if (heap.length === n) for (let at = n >> 1; at >= 0; at--) sink(at);
    } else if (n && worse(heap[0], i)) {
      heap[0] = i;
      sink(0);
    }
  }
  return heap.sort((a, b) => scores[b] - scores[a] || a - b);
}

/** Numbers of a stored array as the client computes with them; `entry` is its description in model.json. */
export function decoded(buffer, entry) {
  const length = entry.shape.reduce((product, size) => product * size, 1);
  switch (entry.dtype) {
    case "float64":
      return new Float64Array(buffer, entry.offset, length);
    case "float32":
      return new Float32Array(buffer, entry.offset, length);
    case "int8":
      return new Int8Array(buffer, entry.offset, length);
    case "float16":
      return fromHalf(new Uint16Array(buffer, entry.offset, length));
    default:
      throw new TypeError(`arrays of ${entry.dtype} cannot be read`);
  }
}

let halves; // a table of all 16-bit numbers, made once

function fromHalf(bits) {
  if (!halves) {
    halves = new Float32Array(1 << 16);
    for (let b = 0; b < halves.length; b++) {
      const exponent = (b >> 10) & 31;
      const fraction = b & 1023;
      const size = exponent ? (1 + fraction / 1024) * 2 ** (exponent - 15) : (fraction / 1024) * 2 ** -14;
      halves[b] = (b >> 15 ? -1 : 1) * (exponent === 31 ? (fraction ? NaN : Infinity) : size);
    }
  }
  return Float32Array.from(bits, (b) => halves[b]);
}
