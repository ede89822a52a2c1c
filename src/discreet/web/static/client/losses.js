// The targets of regressions for different losses.

/** The target of a regression for a rating, given the previous fit; for the squared loss (null), the rating. */
export function target(loss, rating, fitted, expected) {
  if (!loss) return rating;
  if (loss.name === "bits") {
    const sign = Math.fround(rating) >= loss.threshold ? 1 : -1;
    const x = (sign * (fitted - loss.threshold)) / loss.unit;
    return fitted + (loss.unit * sign * steepness(loss, x)) / loss.curvature;
  }
  const about = fitted - expected;
  return fitted - logistic(about, loss.width) * about + rating - loss.centre;
}

/** tanh(s) / s, s = 2 y / width: the factor of y in the derivative of the logistic loss. */
export function logistic(y, width) {
  const s = (2 * y) / width;
  return Math.abs(s) < 1e-4 ? 1 : Math.tanh(s) / s;
}

/** (log h)'(x), where h(x) is the probability that a bit is 1. */
function steepness({ link, sigma }, x) {
  return link === "logistic" ? 1 / (1 + Math.exp(x)) : mills(x / sigma) / sigma;
}

/** The normal density divided by the distribution function. */
function mills(z) {
  const tail = scaled(Math.abs(z) / Math.SQRT2); // exp(z^2 / 2) times twice the smaller of Phi(z), Phi(-z)
  const bell = Math.sqrt(2 / Math.PI);
  return z <= 0 ? bell / tail : (bell * Math.exp((-z * z) / 2)) / (2 - Math.exp((-z * z) / 2) * tail);
}

/** exp(x^2) erfc(x) for x >= 0: Taylor's series up to 2, and a continued fraction from there. */
function scaled(x) {
  if (x < 2) {
    let term = x;
    let sum = x;
    for (let n = 1; Math.abs(term) > 1e-18; n++) {
      term *= (2 * x * x) / (2 * n + 1);
      sum += term;
    }
    return Math.exp(x * x) - (2 / Math.sqrt(Math.PI)) * sum;
  }
  let fraction = 0;
  for (let n = 80; n > 0; n--) fraction = n / 2 / (x + fraction);
  return 1 / (Math.sqrt(Math.PI) * (x + fraction));
}
