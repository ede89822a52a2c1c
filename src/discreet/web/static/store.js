// A user's ratings, stored in this browser and nowhere else.

/** Ratings of one site's user: a Map from the text of an item's id to {rating, at}. */
export class History {
  #key;
  #listeners = [];

  constructor(name, storage = globalThis.localStorage) {
    this.#key = `discreet:${name}`;
    this.storage = storage;
    this.ratings = new Map();
    this.hidden = new Set(); // items that must not be recommended
    try {
      const kept = JSON.parse(storage.getItem(this.#key) ?? "{}");
      for (const [item, rating] of kept.ratings ?? []) {
        if (typeof item === "string" && Number.isFinite(rating)) this.ratings.set(item, rating);
      }
      for (const item of kept.hidden ?? []) if (typeof item === "string") this.hidden.add(item);
    } catch {
      // The browser forbids storage, or the data are not ours: the page still works, until it is closed.
    }
  }

  /** Keep only items that the model knows, with valid ratings. */
  restrict(accepts) {
    for (const [item, rating] of this.ratings) if (!accepts(item, rating)) this.ratings.delete(item);
    for (const item of this.hidden) if (!accepts(item, null)) this.hidden.delete(item);
  }

  get(item) {
    return this.ratings.get(String(item));
  }

  /** Rate an item; null takes the rating back. */
  rate(item, rating) {
    this.ratings.delete(String(item)); // so that the last rated item comes last
    if (rating !== null) this.ratings.set(String(item), rating);
    this.#changed();
  }

  hide(item) {
    this.hidden.add(String(item));
    this.#changed();
  }

  clear() {
    this.ratings.clear();
    this.hidden.clear();
    this.#changed();
  }

  /** All ratings, as the text of a file for the user. */
  toText(title) {
    const ratings = [...this.ratings].map(([item, rating]) => ({ item, title: title(item), rating }));
    return JSON.stringify({ ratings, hidden: [...this.hidden] }, null, 2) + "\n";
  }

  onChange(listener) {
    this.#listeners.push(listener);
  }

  #changed() {
    try {
      if (this.ratings.size || this.hidden.size) {
        const kept = { ratings: [...this.ratings], hidden: [...this.hidden] };
        this.storage.setItem(this.#key, JSON.stringify(kept));
      } else {
        this.storage.removeItem(this.#key);
      }
    } catch {
      // As above.
    }
    for (const listener of this.#listeners) listener();
  }
}
