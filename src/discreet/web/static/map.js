// The catalog on a canvas: every item is a point near similar ones. Drag it or use arrow keys; wheel, + and - zoom.
import { clipped } from "./dom.js";

const SHADES = 24;
const REACH = 16; // pixels from a point within which it is selected
const CLOSEST = 40; // the largest zoom factor
const LANDMARKS = 400; // how many well-known items may get labels where there is room

export class CatalogueMap {
  constructor(canvas, label, model, onOpen) {
    Object.assign(this, { canvas, label, model, onOpen });
    this.places = model.arrays.map;
    const { popularity } = model.arrays;
    const known = [...popularity.keys()].sort((a, b) => popularity[a] - popularity[b]);
    this.sizes = sizes(known);
    this.landmarks = known.slice(-LANDMARKS).reverse();
    this.pointers = new Map();
    this.#whole();
    this.#listen();
    this.size = { width: 0, height: 0 };
    new ResizeObserver(() => this.#resize()).observe(canvas);
    document.addEventListener("themechange", () => this.draw());
  }

  /** Color by these scores; ring what was rated, name what is recommended. */
  update(scores, ratings, named) {
    const order = [...scores.keys()].sort((a, b) => scores[a] - scores[b]);
    this.shade = new Uint8Array(scores.length); // by rank, so that a few extreme scores do not gray out the rest
    order.forEach((at, i) => (this.shade[at] = Math.floor((i / order.length) ** 2 * SHADES)));
    this.order = order;
    this.rated = [...ratings.keys()].map((item) => this.model.number(item));
    this.named = named.map((item) => this.model.number(item));
    requestAnimationFrame(() => this.draw()); // the text is shown first
  }

  #resize() {
    const { width, height } = this.canvas.getBoundingClientRect();
    this.size = { width, height };
    this.draw();
  }

  #whole() {
    this.view = { x: 0, y: 0, zoom: 1 };
  }

  /** Where an item is, in pixels. */
  #at(number) {
    const { width, height } = this.size;
    const { x, y, zoom } = this.view;
    return [
      width / 2 + (this.places[2 * number] - x) * zoom * width * 0.46,
      height / 2 - (this.places[2 * number + 1] - y) * zoom * height * 0.44,
    ];
  }

  draw() {
    const { width, height } = this.size;
    if (!width || !this.order) return;
    const density = globalThis.devicePixelRatio || 1;
    this.canvas.width = Math.round(width * density);
    this.canvas.height = Math.round(height * density);
    const paint = this.canvas.getContext("2d");
    paint.scale(density, density);
    const style = getComputedStyle(this.canvas);
    const shades = palette(style.getPropertyValue("--cool"), style.getPropertyValue("--warm"));
    const grow = Math.min(1 + Math.log2(this.view.zoom) / 3, 2.2) * (this.order.length > 4000 ? 0.6 : 1);
    for (const at of this.order) {
      const [x, y] = this.#at(at);
      if (x < -8 || y < -8 || x > width + 8 || y > height + 8) continue;
      paint.fillStyle = shades[this.shade[at]];
      paint.beginPath();
      paint.arc(x, y, this.sizes[at] * grow, 0, 2 * Math.PI);
      paint.fill();
    }
    paint.strokeStyle = style.getPropertyValue("--ink");
    paint.lineWidth = 2;
    for (const at of this.rated) {
      paint.beginPath();
      paint.arc(...this.#at(at), 7, 0, 2 * Math.PI);
      paint.stroke();
    }
    this.#names(paint, style, width, height);
    if (this.canvas.matches(":focus-visible")) this.#cross(paint, width, height);
  }

  /** Labels of recommended and rated items, then of well-known ones, where they do not overlap. */
  #names(paint, style, width, height) {
    paint.textBaseline = "middle";
    paint.lineJoin = "round";
    paint.lineWidth = 4;
    paint.strokeStyle = style.getPropertyValue("--surface");
    const own = new Set([...this.named, ...this.rated]);
    const points = Array.from(own, (at) => around(...this.#at(at)));
    const taken = [];
    for (const at of new Set([...own, ...this.landmarks])) {
      const [x, y] = this.#at(at);
      if (x < 0 || y < 0 || x > width || y > height) continue;
      paint.font = `${own.has(at) ? "600 14px" : "12px"} ${style.fontFamily}`;
      const text = clipped(this.model.title(this.model.ids[at]), 28);
      const long = paint.measureText(text).width;
      const room = own.has(at) ? 10 : 16; // between lines
      const others = own.has(at) ? taken : [...taken, ...points];
      const box = (left) => [left - 2, y - room, left + long + 6, y + room];
      const fits = (left) => left >= 0 && left + long <= width && !others.some((other) => overlap(box(left), other));
      const left = [x + 11, x - 11 - long].find(fits);
      if (left === undefined) continue;
      taken.push(box(left));
      paint.strokeText(text, left, y);
      paint.fillStyle = style.getPropertyValue(own.has(at) ? "--ink" : "--soft");
      paint.fillText(text, left, y);
    }
  }

  #cross(paint, width, height) {
    paint.lineWidth = 1.5;
    paint.strokeRect(width / 2 - 9, height / 2 - 9, 18, 18);
  }

  /** The item nearest to a position, if one is near enough. */
  #nearest(x, y, reach = REACH) {
    let found = null;
    let least = reach * reach;
    for (const at of this.order) {
      const [px, py] = this.#at(at);
      const distance = (px - x) ** 2 + (py - y) ** 2;
      if (distance <= least) [found, least] = [at, distance];
    }
    return found;
  }

  /** Zoom by a factor, keeping the point at a position fixed. */
  #zoom(factor, x = null, y = null) {
    const { width, height } = this.size;
    const before = this.view.zoom;
    const zoom = Math.min(Math.max(before * factor, 1), CLOSEST);
    const shift = 1 / before - 1 / zoom;
    if (x !== null) {
      this.view.x += ((x - width / 2) / (width * 0.46)) * shift;
      this.view.y -= ((y - height / 2) / (height * 0.44)) * shift;
    }
    this.view.zoom = zoom;
    if (zoom === 1) this.#whole();
    this.draw();
  }

  #pan(dx, dy) {
    const { width, height } = this.size;
    const { view } = this;
    view.x = Math.min(Math.max(view.x - dx / (view.zoom * width * 0.46), -1), 1);
    view.y = Math.min(Math.max(view.y + dy / (view.zoom * height * 0.44), -1), 1);
    this.draw();
  }

  #tell(number, x = null, y = null) {
    this.label.hidden = number === null;
    if (number === null) return;
    const { width } = this.size;
    const [px, py] = x === null ? this.#at(number) : [x, y];
    this.label.textContent = clipped(this.model.title(this.model.ids[number]), 80);
    this.label.style.left = `${Math.min(Math.max(px, 70), width - 70)}px`;
    this.label.style.top = `${Math.max(py - 14, 26)}px`;
  }

  #center() {
    const { width, height } = this.size;
    return this.#nearest(width / 2, height / 2, Infinity);
  }

  #listen() {
    const { canvas } = this;
    const place = (event) => {
      const { left, top } = canvas.getBoundingClientRect();
      return [event.clientX - left, event.clientY - top];
    };
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      this.pointers.set(event.pointerId, place(event));
      this.moved = 0;
    });
    canvas.addEventListener("pointermove", (event) => this.#move(event, place(event)));
    for (const end of ["pointerup", "pointercancel"]) {
      canvas.addEventListener(end, (event) => {
        const [x, y] = place(event);
        this.pointers.delete(event.pointerId);
        const number = end === "pointerup" && this.moved < 5 ? this.#nearest(x, y) : null;
        if (number !== null) this.onOpen(this.model.ids[number]);
      });
    }
    canvas.addEventListener("pointerleave", () => this.#tell(null));
    canvas.addEventListener(
      "wheel",
      (event) => {
        if (!event.ctrlKey && document.activeElement !== canvas) return; // scroll the page unless the map has the focus
        event.preventDefault();
        this.#zoom(2 ** (-event.deltaY / 300), ...place(event));
      },
      { passive: false },
    );
    canvas.addEventListener("dblclick", (event) => this.#zoom(2, ...place(event)));
    canvas.addEventListener("keydown", (event) => this.#key(event));
    canvas.addEventListener("focus", () => this.draw());
    canvas.addEventListener("blur", () => {
      this.#tell(null);
      this.draw();
    });
    document.getElementById("zoom-in").addEventListener("click", () => this.#zoom(1.6));
    document.getElementById("zoom-out").addEventListener("click", () => this.#zoom(1 / 1.6));
    document.getElementById("zoom-all").addEventListener("click", () => this.#zoom(0));
  }

  #move(event, [x, y]) {
    const before = this.pointers.get(event.pointerId);
    if (!before) {
      const number = this.#nearest(x, y);
      this.canvas.classList.toggle("on-point", number !== null);
      this.#tell(number);
      return;
    }
    this.moved += Math.abs(x - before[0]) + Math.abs(y - before[1]);
    this.pointers.set(event.pointerId, [x, y]);
    if (this.pointers.size === 1) return this.#pan(x - before[0], y - before[1]);
    const other = [...this.pointers].find(([id]) => id !== event.pointerId)[1];
    const distance = (point) => Math.hypot(point[0] - other[0], point[1] - other[1]) || 1;
    this.#zoom(distance([x, y]) / distance(before), (x + other[0]) / 2, (y + other[1]) / 2);
  }

  #key(event) {
    const far = 40;
    const keys = {
      ArrowLeft: () => this.#pan(far, 0),
      ArrowRight: () => this.#pan(-far, 0),
      ArrowUp: () => this.#pan(0, far),
      ArrowDown: () => this.#pan(0, -far),
      "+": () => this.#zoom(1.4),
      "=": () => this.#zoom(1.4),
      "-": () => this.#zoom(1 / 1.4),
      0: () => this.#zoom(0),
      Enter: () => this.onOpen(this.model.ids[this.#center()]),
    };
    if (!(event.key in keys) || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    keys[event.key]();
    if (event.key !== "Enter") this.#tell(this.#center());
  }
}

const around = (x, y) => [x - 8, y - 8, x + 8, y + 8];

const overlap = (a, b) => a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3];

/** How large each point is, from all of them in the order of their popularity. */
function sizes(order) {
  const found = new Float32Array(order.length);
  order.forEach((at, i) => (found[at] = 2 + 3 * (i / order.length) ** 2));
  return found;
}

/** Colors between two, each given as "r g b a". */
function palette(cool, warm) {
  const [a, b] = [cool, warm].map((text) => text.trim().split(/\s+/).map(Number));
  return Array.from({ length: SHADES + 1 }, (_, i) => {
    const [red, green, blue, alpha] = a.map((from, c) => from + ((b[c] - from) * i) / SHADES);
    return `rgb(${red} ${green} ${blue} / ${alpha})`;
  });
}
