// Controls for ratings: stars, the numbers of another scale, or a heart if there are no values.
import { el } from "./dom.js";

const STARS = 5;
const MOST = 10; // the most values that are offered one by one
let groups = 0; // each group of radio buttons needs a name of its own

/** Whether ratings are stars: from 0, a half or 1 to 5. */
const inStars = ({ value_range: [low, high] }) => low >= 0 && low <= 1 && high === STARS;

/** The values that can be given: stars, each whole number of a short scale, or five even steps of any other. */
export function levels({ implicit, value_range: [low, high] }) {
  if (implicit) return [1];
  if (inStars({ value_range: [low, high] })) return Array.from({ length: STARS }, (_, i) => i + 1);
  const short = Number.isInteger(low) && Number.isInteger(high) && high - low < MOST;
  const count = short ? high - low + 1 : STARS;
  return Array.from({ length: count }, (_, i) => low + ((high - low) * i) / (count - 1));
}

/** The label of the rating control. */
export function words({ implicit }) {
  return implicit ? { done: "liked", one: "like", many: "likes" } : { done: "rated", one: "rating", many: "ratings" };
}

/** A number with as many digits as its scale needs, and a true minus. */
function fixed({ value_range: [low, high] }, value) {
  const digits = Math.ceil(1 - Math.log10((high - low || 1) / 3));
  return value.toFixed(Math.min(Math.max(digits, 0), 9)).replace("-", "−");
}

/** The same without trailing zeros. */
const plain = (description, value) => fixed(description, value).replace(/\.0+$|(?<=\.\d*?)0+$/, "");

/** The scale, as text after a value. */
export function scale(description) {
  const [low, high] = description.value_range.map((end) => plain(description, end));
  return low === "0" || low === "1" || inStars(description) ? ` of ${high}` : `, from ${low} to ${high}`;
}

/** A value as text. */
export function said(description, value) {
  return description.implicit ? "liked" : plain(description, value) + scale(description);
}

/** A value as short text. */
export function shortly(description, value) {
  return !description.implicit && scale(description).startsWith(",") ? `rated ${plain(description, value)}` : said(description, value);
}

/** The predicted rating. */
export function expectedRating(description, value) {
  const title = `the rating expected of you${scale(description).replace(" of", ", of")}`;
  const unit = inStars(description) ? el("small", {}, " ★") : null;
  return el("span", { className: "value", title }, el("strong", {}, fixed(description, value)), unit);
}

/**
 * A control to rate one item: a group of radio buttons, so that keyboard and screen readers know what it is.
 * @param {object} description of the model.
 * @param {{title: string, value: number | undefined, onRate: (value: number | null) => void}} options
 */
export function ratingControl(description, { title, value, onRate }) {
  if (description.implicit) {
    const liked = value !== undefined;
    return el(
      "button",
      {
        type: "button",
        className: "heart",
        "aria-pressed": String(liked),
        "aria-label": `Like ${title}`,
        onclick: () => onRate(liked ? null : 1),
      },
      liked ? "♥" : "♡",
    );
  }
  const name = `rating-${(groups += 1)}`;
  const values = levels(description);
  const nearest = value === undefined ? -1 : closest(values, value);
  const stars = inStars(description);
  const choices = values.map((level, i) => {
    const on = stars ? i <= nearest : i === nearest;
    return el(
      "label",
      { className: `${stars ? "star" : "step"}${on ? " on" : ""}` },
      el("input", { type: "radio", name, value: String(level), checked: i === nearest, onchange: () => onRate(level) }),
      el("span", { className: "hidden" }, said(description, level)),
      el("span", { "aria-hidden": "true" }, stars ? (on ? "★" : "☆") : plain(description, level)),
    );
  });
  const legend = el("legend", { className: "hidden" }, `Rate ${title}`);
  return el("fieldset", { className: stars ? "stars" : "steps" }, legend, ...choices);
}

function closest(values, value) {
  return values.reduce((best, level, i) => (Math.abs(level - value) < Math.abs(values[best] - value) ? i : best), 0);
}
