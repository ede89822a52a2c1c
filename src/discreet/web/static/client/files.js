// The files of a model: fetch them, and check that they are complete.
import { decoded } from "./linalg.js";

/** The error for a model that cannot be used, with a message for people. */
export class ModelError extends Error {}

/** The content of a file, from a server. */
export async function read(get, url) {
  const name = url.pathname.split("/").pop();
  let answer;
  try {
    answer = await get(url);
  } catch {
    throw new ModelError(`${name} could not be fetched; is the server there?`);
  }
  if (!answer.ok) throw new ModelError(`${name} could not be fetched: the server says ${answer.status}`);
  return answer.arrayBuffer();
}

/** The content of a JSON file. */
export function parsed(name, buffer) {
  try {
    return JSON.parse(new TextDecoder().decode(buffer));
  } catch {
    throw new ModelError(`${name} is not valid JSON; it was cut off or changed`);
  }
}

/** Compare a file with model.json: its size and, where browsers allow it (https), its digest. */
export async function requireUnchanged(name, buffer, entry) {
  const changed = new ModelError(`${name} is not the file that was exported; export the model again`);
  if (buffer.byteLength !== entry?.size) throw changed;
  if (!globalThis.crypto?.subtle) return;
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", buffer));
  if (Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("") !== entry.sha256) throw changed;
}

/** All arrays of a file, by name, as the client computes with them. */
export function unpacked(buffer, entries) {
  const arrays = {};
  for (const [name, entry] of Object.entries(entries)) arrays[name] = decoded(buffer, entry);
  for (const [name, { factors, shape }] of Object.entries(entries)) {
    if (factors) arrays[name] = scaled(arrays[name], shape, ...factors.map((factor) => arrays[factor]));
  }
  return arrays;
}

/** The numbers of an int8 table: steps times the factors of row and column. */
function scaled(steps, [, k], rows, columns) {
  return Float32Array.from(steps, (step, at) => step * rows[Math.floor(at / k)] * columns[at % k]);
}
