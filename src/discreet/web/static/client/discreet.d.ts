/** Items and ratings of one person: {item: rating}, a Map, pairs, or liked items alone. */
export type Item = string | number;
export type History = Record<string, number> | Map<Item, number> | [Item, number][] | Item[];

export interface Recommendation {
  item: Item;
  title: string;
  score: number;
}

export interface Explanation {
  item: Item;
  score: number;
  baseline: number;
  contributions: { item: Item; title: string; rating: number; adds: number }[];
}

export interface Options {
  n?: number;
  excludeSeen?: boolean;
  allow?: Iterable<Item> | null;
  deny?: Iterable<Item> | null;
}

export class ModelError extends Error {}
export class HistoryError extends Error {}
export const FORMAT: string;
export const VERSION: number;

export class Model {
  static load(url: string | URL, options?: { fetch?: typeof fetch }): Promise<Model>;
  readonly description: Record<string, any>;
  readonly ids: Item[];
  readonly titles: (string | null)[] | null;
  readonly columns: Record<string, (string | number | boolean | null)[]>;
  readonly rank: number;
  readonly scoresAreRatings: boolean;
  number(item: Item): number;
  title(item: Item): string;
  foldIn(history: History): { offset: number; vector: Float64Array };
  scores(history: History): Float64Array;
  recommend(history: History, options?: Options): Recommendation[];
  predict(history: History, items: Item[]): number[];
  similarItems(item: Item, n?: number): Recommendation[];
  explain(history: History, item: Item): Explanation;
  check(): void;
}
