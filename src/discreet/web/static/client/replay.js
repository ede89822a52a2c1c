// A person replays the public steps of training on their own history: ReplayFoldIn in Python.
import { ModelError } from "./files.js";
import { total } from "./linalg.js";
import { logistic } from "./losses.js";

const length = (values) => Math.sqrt(total(values.map((value) => value * value)));

/** Steps y = ((1 - size) y - gain (residual . v) v), no longer than a bound on the person's own items. */
class FrankWolfe {
  constructor({ steps, row_norm: bound }, arrays, rank) {
    Object.assign(this, { steps, bound, arrays, rank });
  }

  #slopes(fitted) {
    const { width } = this.steps;
    return fitted.map((y) => (width === null ? 1 : logistic(y, width)));
  }

  /** The effect of each step on a person's row. */
  #replayed(rows, values) {
    const { bound } = this;
    let fitted = values.map(() => 0);
    return this.steps.numbers.map(([size, gain], t) => {
      const own = rows.map(([number]) => this.arrays.columns[number * this.rank + t]);
      const slopes = this.#slopes(fitted);
      const weight = -gain * total(own.map((v, i) => v * (slopes[i] * fitted[i] - values[i])));
      const moved = fitted.map((y, i) => (1 - size) * y + weight * own[i]);
      const shrunk = bound / Math.max(length(moved), bound);
      fitted = moved.map((y) => y * shrunk);
      return { size, gain, own, slopes, weight, shrunk };
    });
  }

  coefficients(rows, values) {
    const vector = new Float64Array(this.rank);
    this.#replayed(rows, values).forEach(({ size, weight, shrunk }, t) => {
      for (let c = 0; c < t; c++) vector[c] *= (1 - size) * shrunk;
      vector[t] = weight * shrunk;
    });
    return vector;
  }

  /** With scalings and slopes held fixed, backpropagate the derivatives of the score through the steps. */
  contributions(rows, { parts, scale, values }, aim) {
    let byFitted = values.map(() => 0);
    let byRating = values.map(() => 0);
    let kept = 1;
    this.#replayed(rows, values).reduceRight((_, { size, gain, own, slopes, shrunk }, t) => {
      kept *= shrunk;
      const byWeight = kept * aim[t] + shrunk * total(own.map((v, i) => v * byFitted[i]));
      kept *= 1 - size;
      const byResidual = own.map((v) => -gain * byWeight * v);
      byFitted = byFitted.map((by, i) => shrunk * (1 - size) * by + slopes[i] * byResidual[i]);
      byRating = byRating.map((by, i) => by - byResidual[i]);
    }, null);
    return parts.map((part, i) => part + (byRating[i] * values[i]) / scale);
  }
}

/** Steps z = y - eta P(y - x), y = z V diag(gains) V^T, for which a person keeps their coefficients on V. */
class Descent {
  constructor({ steps }, arrays) {
    Object.assign(this, { steps, arrays });
  }

  /** The public part of each step, on a person's own items, and the step size after it. */
  #steps(rows) {
    const { ranks, gains, room, size } = this.steps;
    const { columns, steps, transitions } = this.arrays;
    const width = total(ranks.slice(0, -1));
    let [from, begin, before] = [0, 0, 0];
    return ranks.map((rank, t) => {
      const last = t === ranks.length - 1;
      const own = rows.map(([number]) =>
        last
          ? columns.subarray(number * rank, (number + 1) * rank)
          : steps.subarray(number * width + from, number * width + from + rank),
      );
      const squares = total(own.map((v) => length([...v]) ** 2));
      const carried = transitions.subarray(begin, begin + before * rank); // from the coefficients before to these
      const found = { rank, own, carried, gains: gains.slice(from, from + rank) };
      [from, begin, before] = [from + rank, begin + before * rank, rank];
      return { ...found, eta: rank ? size / Math.min(squares + room[t], 1) : size };
    });
  }

  coefficients(rows, values) {
    let change = values.map((value) => -this.steps.size * value);
    let own = [];
    for (const step of this.#steps(rows)) {
      own = Float64Array.from(step.gains, (gain, c) => {
        const moved = own.reduce((sum, value, b) => sum + value * step.carried[b * step.rank + c], 0);
        return gain * (moved - total(change.map((value, i) => value * step.own[i][c])));
      });
      change = values.map((value, i) => step.eta * (own.reduce((sum, z, c) => sum + z * step.own[i][c], 0) - value));
    }
    return own;
  }

  /** The score is linear in the centered ratings; backpropagate their factors through the steps. */
  contributions(rows, { parts, about }, aim) {
    const steps = this.#steps(rows);
    let aimed = Array.from(aim);
    const loads = rows.map(() => 0);
    for (let t = steps.length - 1; t >= 0; t--) {
      const { gains, own, carried, rank } = steps[t];
      const before = steps[t - 1];
      const kept = aimed.map((value, c) => value * gains[c]);
      const byChange = own.map((v) => -kept.reduce((sum, value, c) => sum + value * v[c], 0));
      const eta = before?.eta ?? this.steps.size;
      byChange.forEach((value, i) => (loads[i] -= eta * value));
      aimed = Array.from({ length: before?.rank ?? 0 }, (_, b) => {
        const direct = kept.reduce((sum, value, c) => sum + value * carried[b * rank + c], 0);
        return direct + eta * total(byChange.map((value, i) => value * before.own[i][b]));
      });
    }
    const all = total(loads);
    return parts.map((part, i) => loads[i] * about[i] + part * (1 - all));
  }
}

const RULES = new Map([
  ["frank-wolfe", FrankWolfe],
  ["descent", Descent],
]);

export class Replay {
  #steps;

  constructor(settings, arrays, rank) {
    Object.assign(this, { settings, arrays, rank });
    const Rule = RULES.get(settings.steps.rule);
    if (!Rule) throw new ModelError(`the model's steps are of the kind ${settings.steps.rule}, which is not known here`);
    this.#steps = new Rule(settings, arrays, rank);
  }

  foldIn(rows) {
    const { offset, scale, values } = this.#prepared(rows);
    return { offset, vector: Float64Array.from(this.#steps.coefficients(rows, values), (value) => value / scale) };
  }

  contributions(rows, at) {
    const aim = this.arrays.columns.subarray(at * this.rank, (at + 1) * this.rank);
    return this.#steps.contributions(rows, this.#prepared(rows), aim);
  }

  /** A person's row: deviations from their own mean, scaled to a norm of at most a bound. */
  #prepared(rows) {
    const { centre, shrinkage, row_norm: bound } = this.settings;
    const about = rows.map(([, rating]) => rating - centre);
    const share = shrinkage === null ? 0 : 1 / Math.max(rows.length + shrinkage, 1);
    const parts = about.map((value) => value * share); // each rating's part of the offset
    const offset = total(parts);
    const centered = about.map((value) => value - offset);
    const scale = bound / Math.max(length(centered), bound);
    return { parts, offset, scale, about, values: centered.map((value) => value * scale) };
  }
}
