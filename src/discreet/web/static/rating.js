// How a rating is given: stars for values, a heart where there are none.
import { el } from "./dom.js";

const STARS = 5;
let groups = 0; // each group of radio buttons needs a name of its own

/** The values that the stars of a model stand for: 1 to 5 where ratings are such, else five even steps of the range. */
export function levels({ implicit, value_range: [low, high] }) {
  if (implicit) return [1];
  const usual = low <= 1 && low >= 0 && high === STARS;
  return Array.from({ length: STARS }, (_, i) => (usual ? i + 1 : low + ((high - low) * i) / (STARS - 1)));
}

/** What giving a rating is called. */
export function words({ implicit }) {
  return implicit ? { done: "liked", one: "like", many: "likes" } : { done: "rated", one: "rating", many: "ratings" };
}

/** How a value is said. */
export function said({ implicit, value_range: [low, high] }, value) {
  const number = Number(value.toFixed(1));
  if (implicit) return "liked";
  return low >= 0 && low <= 1 ? `${number} of ${high}` : `${number}, from ${low} to ${high}`;
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
  const stars = values.map((level, i) =>
    el(
      "label",
      { className: i <= nearest ? "star on" : "star" },
      el("input", { type: "radio", name, value: String(level), checked: i === nearest, onchange: () => onRate(level) }),
      el("span", { className: "hidden" }, said(description, level)),
      el("span", { "aria-hidden": "true" }, i <= nearest ? "★" : "☆"),
    ),
  );
  return el("fieldset", { className: "stars" }, el("legend", { className: "hidden" }, `Rate ${title}`), ...stars);
}

function closest(values, value) {
  return values.reduce((best, level, i) => (Math.abs(level - value) < Math.abs(values[best] - value) ? i : best), 0);
}
