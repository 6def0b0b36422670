/* Computes the SHA-256 of a file beside the page: post {file}; answers {done: bytes} … then {hex}. */

import { Sha256 } from "./sha256.js";

const PIECE = 4 * 1024 * 1024;

addEventListener("message", async ({ data: { file } }) => {
  try {
    const hash = new Sha256();
    for (let at = 0; at < file.size; at += PIECE) {
      hash.update(new Uint8Array(await file.slice(at, at + PIECE).arrayBuffer()));
      postMessage({ done: Math.min(at + PIECE, file.size) });
    }
    postMessage({ hex: hash.hex() });
  } catch (error) {
    postMessage({ error: String(error.message ?? error) }); // the file was moved or may not be read
  }
});
