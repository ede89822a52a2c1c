// Users who are folded in by replaying the public steps of training on their own history: "frank-wolfe" and "descent" of
// discreet.web.folding.
import { logistic } from "./losses.js";

const total = (values) => values.reduce((sum, value) => sum + value, 0);
const length = (values) => Math.sqrt(total(values.map((value) => value * value)));

class Replay {
  constructor(settings, arrays, rank) {
    Object.assign(this, { settings, arrays, rank });
  }

  /** A user's row: her ratings about her own mean, scaled to be no longer than a bound. */
  prepared(rows) {
    const { centre, shrinkage, row_norm: bound } = this.settings;
    const about = rows.map(([, rating]) => rating - centre);
    const share = shrinkage === null ? 0 : 1 / Math.max(rows.length + shrinkage, 1);
    const parts = about.map((value) => value * share); // of each rating, in her offset
    const offset = total(parts);
    const centred = about.map((value) => value - offset);
    const scale = bound / Math.max(length(centred), bound);
    return { parts, offset, scale, about, values: centred.map((value) => value * scale) };
  }
}

/** Steps y = ((1 - size) y - gain (residual . v) v), no longer than a bound on her own items. */
export class FrankWolfe extends Replay {
  #slopes(fitted) {
    const { width } = this.settings;
    return fitted.map((y) => (width === null ? 1 : logistic(y, width)));
  }

  /** What each step did to a user's row. */
  #replayed(rows, values) {
    const { steps, row_norm: bound } = this.settings;
    let fitted = values.map(() => 0);
    return steps.map(([size, gain], t) => {
      const own = rows.map(([number]) => this.arrays.columns[number * this.rank + t]);
      const slopes = this.#slopes(fitted);
      const weight = -gain * total(own.map((v, i) => v * (slopes[i] * fitted[i] - values[i])));
      const moved = fitted.map((y, i) => (1 - size) * y + weight * own[i]);
      const shrunk = bound / Math.max(length(moved), bound);
      fitted = moved.map((y) => y * shrunk);
      return { size, gain, own, slopes, weight, shrunk };
    });
  }

  foldIn(rows) {
    const { offset, scale, values } = this.prepared(rows);
    const vector = new Float64Array(this.rank);
    this.#replayed(rows, values).forEach(({ size, weight, shrunk }, t) => {
      for (let c = 0; c < t; c++) vector[c] *= (1 - size) * shrunk;
      vector[t] = weight * shrunk;
    });
    return { offset, vector: vector.map((value) => value / scale) };
  }

  /** Scalings and slopes are taken as they turned out; the derivatives of the score then run back through the steps. */
  contributions(rows, at) {
    const { parts, scale, values } = this.prepared(rows);
    let byFitted = values.map(() => 0);
    let byRating = values.map(() => 0);
    let kept = 1;
    this.#replayed(rows, values).reduceRight((_, { size, gain, own, slopes, shrunk }, t) => {
      kept *= shrunk;
      const aimed = kept * this.arrays.columns[at * this.rank + t];
      const byWeight = aimed + shrunk * total(own.map((v, i) => v * byFitted[i]));
      kept *= 1 - size;
      const byResidual = own.map((v) => -gain * byWeight * v);
      byFitted = byFitted.map((by, i) => shrunk * (1 - size) * by + slopes[i] * byResidual[i]);
      byRating = byRating.map((by, i) => by - byResidual[i]);
    }, null);
    return parts.map((part, i) => part + (byRating[i] * values[i]) / scale);
  }
}

/** Steps z = y - eta P(y - x), y = z V diag(gains) V^T, of which a user keeps her coefficients on V. */
export class Descent extends Replay {
  /** What is public of each step, on a user's own items; and how far she goes after it. */
  #steps(rows) {
    const { ranks, gains, room, size } = this.settings;
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

  foldIn(rows) {
    const { offset, scale, values } = this.prepared(rows);
    let change = values.map((value) => -this.settings.size * value);
    let own = [];
    for (const step of this.#steps(rows)) {
      own = Float64Array.from(step.gains, (gain, c) => {
        const moved = own.reduce((sum, value, b) => sum + value * step.carried[b * step.rank + c], 0);
        return gain * (moved - total(change.map((value, i) => value * step.own[i][c])));
      });
      change = values.map((value, i) => step.eta * (own.reduce((sum, z, c) => sum + z * step.own[i][c], 0) - value));
    }
    return { offset, vector: Float64Array.from(own, (value) => value / scale) };
  }

  /** The score is a sum over her centred ratings: what each is multiplied by runs back through the steps. */
  contributions(rows, at) {
    const { parts, about } = this.prepared(rows);
    const steps = this.#steps(rows);
    const { columns } = this.arrays;
    let aimed = Array.from(columns.subarray(at * this.rank, (at + 1) * this.rank));
    const loads = rows.map(() => 0);
    for (let t = steps.length - 1; t >= 0; t--) {
      const { gains, own, carried, rank } = steps[t];
      const before = steps[t - 1];
      const kept = aimed.map((value, c) => value * gains[c]);
      const byChange = own.map((v) => -kept.reduce((sum, value, c) => sum + value * v[c], 0));
      const eta = before?.eta ?? this.settings.size;
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
