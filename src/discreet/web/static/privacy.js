// The privacy section: what is promised, to whom, and that this page sends nothing anywhere.
import { atMost, bar, brief, el, svg } from "./dom.js";
import { words } from "./rating.js";

/** Count network requests of the page from now on; calls `onCount` at once and on every change. */
export function watchNetwork(onCount) {
  let count = 0;
  const ready = performance.now(); // files requested earlier may still arrive
  const since = (list) => list.getEntries().filter((entry) => entry.startTime >= ready).length;
  new PerformanceObserver((list) => onCount((count += since(list)))).observe({ entryTypes: ["resource"] });
  onCount(count);
}

/** Fill the privacy section. */
export function showPrivacy(section, model, history) {
  const { privacy, tradeoff, loss, precision } = model.description;
  const count = el("span", {});
  const { one, many } = words(model.description);
  const counted = () => (count.textContent = `${history.ratings.size} ${history.ratings.size === 1 ? one : many}`);
  history.onChange(counted);
  counted();
  section.replaceChildren(
    el("h2", { id: "privacy-title" }, "Privacy"),
    el(
      "div",
      { className: "tiles" },
      el(
        "article",
        {},
        el("h3", {}, "You"),
        el("p", { className: "big" }, "Nothing leaves your device"),
        ...you(many, count),
      ),
      el("article", {}, el("h3", {}, "The people it learned from"), ...others(privacy, model.description.implicit)),
      el("article", {}, el("h3", {}, "How the privacy budget was spent"), ...budget(privacy)),
    ),
    tradeoff
      ? el(
          "figure",
          { className: "tradeoff" },
          el("h3", {}, "What privacy costs"),
          curve(tradeoff, privacy.epsilon),
          el("figcaption", {}, `${meant(tradeoff.metric)} ${tradeoff.covered}`),
        )
      : "",
    el(
      "details",
      {},
      el("summary", {}, "The guarantee, word for word"),
      el("p", {}, privacy.sentence),
      ...small(privacy),
    ),
    el("details", {}, el("summary", {}, "Check that this page sends nothing"), ...proof()),
    el(
      "details",
      {},
      el("summary", {}, "Accuracy lost to compression"),
      el(
        "p",
        {},
        `Item vectors are stored as ${precision}. For made-up people, ${brief(100 * loss.top_10_kept)}% of their ten best titles `,
        `stayed the same, and predictions moved by ${brief(loss.predicted)} on average.`,
      ),
    ),
  );
}

function you(many, count) {
  return [
    el(
      "p",
      {},
      `Your ${many} are compared with the catalog on this device. The model came to you, so your data does not have to go anywhere.`,
    ),
    el("p", {}, "Stored in this browser until you delete them: ", count, "."),
  ];
}

function others(privacy, implicit) {
  if (!privacy.holds) {
    return [el("p", { className: "big bad" }, "Not private"), el("p", {}, privacy.sentence)];
  }
  const { epsilon, delta, unit, adjacency } = privacy;
  const whole = `everything that any one person ${implicit ? "did" : "rated"}`;
  const whose = unit === "user" ? whole : "any single rating of anyone's";
  const changed = { "add-remove": "were left out", replace: "were something else", flip: "were the opposite" }[
    adjacency
  ];
  const factor = epsilon <= 10 ? atMost(Math.exp(epsilon)) : `e to the ${atMost(epsilon)}`;
  const much = `change by at most a factor of ${factor}, up or down, plus δ`;
  return [
    el("p", { className: "big" }, `ε = ${atMost(epsilon)}`, el("small", {}, ` δ = ${delta.toExponential()}`)),
    el("p", {}, `If ${whose} ${changed}, the probability of anything this model reveals would ${much}.`),
    el("p", { className: "detail" }, "This is a mathematical guarantee, not a policy: noise was added before anything was stored."),
  ];
}

function budget({ releases }) {
  if (!releases.length) return [el("p", {}, "There was no budget: no noise was added.")];
  const rows = merged(releases).map(({ tells, part, times }) =>
    el(
      "li",
      {},
      el("span", {}, tells, times > 1 ? el("small", {}, ` × ${times}`) : null),
      el("span", { className: "number" }, part < 0.005 ? "< 1%" : `${Math.round(100 * part)}%`),
      bar(part),
    ),
  );
  return [el("ul", { className: "reasons shares" }, ...rows)];
}

/** Releases that reveal the same thing, merged into one line. */
function merged(releases) {
  const kinds = new Map();
  for (const { tells, part } of releases) {
    const kind = kinds.get(tells) ?? { tells, part: 0, times: 0 };
    kinds.set(tells, { ...kind, part: kind.part + part, times: kind.times + 1 });
  }
  return [...kinds.values()].sort((a, b) => b.part - a.part);
}

function small(privacy) {
  const list = (items) => el("ul", {}, ...items.map((item) => el("li", {}, item)));
  return [
    el("h4", {}, "Covered"),
    el("p", {}, privacy.covered),
    el("h4", {}, "Not covered"),
    list(privacy.not_covered),
    el("h4", {}, "Assumed to be public"),
    list(Object.entries(privacy.public_inputs).map(([name, why]) => `${name}: ${why}`)),
    privacy.notes.length ? el("h4", {}, "Notes") : "",
    privacy.notes.length ? list(privacy.notes) : "",
    el(
      "p",
      {},
      el("a", { href: "model/certificate.json", download: "certificate.json" }, "The certificate"),
      el("span", { className: "detail digest" }, ` ${privacy.digest}`),
    ),
  ];
}

function proof() {
  const names = performance.getEntriesByType("resource").map(({ name }) => new URL(name).pathname.split("/").pop());
  return [
    el(
      "ol",
      {},
      el(
        "li",
        {},
        "Open your browser's developer tools (F12) and choose the Network tab. Rate something: nothing appears.",
      ),
      el("li", {}, "Or disconnect from the network. Everything on this page keeps working."),
      el(
        "li",
        {},
        "The page's content security policy lets it contact only its own host. Its scripts, which you can read, ",
        "request nothing after they have loaded.",
      ),
    ),
    el("p", { className: "detail" }, `Loaded with the page: ${[...new Set(names)].join(", ")}.`),
  ];
}

/** An explanation of the curve. */
function meant(metric) {
  const better = /^(rmse|mae)/.test(metric) ? "an error, so lower is better" : "higher is better";
  return `${metric} (${better}) at several budgets. A smaller epsilon is more private. The ring marks the budget of this model.`;
}

/** Accuracy against epsilon, on a logarithmic axis. */
function curve({ metric, points, references }, own) {
  const width = Math.max(280, Math.min(640, innerWidth - 90)); // so that text keeps its size
  const [height, left, low] = [220, 12, 34];
  const levels = [...points.map(({ value }) => value), ...Object.values(references)];
  const [least, most] = [Math.min(...levels), Math.max(...levels)];
  const room = (most - least || 1) * 0.12;
  const logs = points.map(({ epsilon }) => Math.log(epsilon));
  const span = Math.max(...logs) - Math.min(...logs) || 1;
  const x = (epsilon) => left + 26 + ((Math.log(epsilon) - Math.min(...logs)) / span) * (width - left - 66);
  const y = (value) => 14 + ((most + room - value) / (most - least + 2 * room || 1)) * (height - low - 24);
  const said = points.map(({ epsilon, value }) => `${brief(value)} at ${brief(epsilon)}`).join(", ");
  return svg(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${metric} by epsilon: ${said}` },
    ...Object.entries(references).flatMap(([name, value]) => [
      svg("line", { class: "reference", x1: left, x2: width - 12, y1: y(value), y2: y(value) }),
      svg("text", { x: left, y: y(value) - 5 }, `${name} ${brief(value)}`),
    ]),
    svg("polyline", { points: points.map(({ epsilon, value }) => `${x(epsilon)},${y(value)}`).join(" ") }),
    ...points.flatMap(({ epsilon, value }) => [
      svg("circle", { cx: x(epsilon), cy: y(value), r: 4.5 }),
      ...(Math.abs(epsilon - own) < 1e-3 * epsilon
        ? [svg("circle", { class: "own", cx: x(epsilon), cy: y(value), r: 9 })]
        : []),
      svg("text", { x: x(epsilon), y: y(value) - 13, "text-anchor": "middle" }, brief(value)),
      svg("text", { x: x(epsilon), y: height - 12, "text-anchor": "middle" }, `ε ${brief(epsilon)}`),
    ]),
  );
}
