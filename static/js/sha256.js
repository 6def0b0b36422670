/* SHA-256 (FIPS 180-4) that takes its input in pieces: crypto.subtle needs all of a file at once.

   const hash = new Sha256(); hash.update(bytes); hash.hex()   bytes: Uint8Array of any length */

const K = new Int32Array(64);
const START = new Int32Array(8);
const W = new Int32Array(64);

// The constants are the fractions of roots of the first primes (sections 4.2.2 and 5.3.3).
for (let candidate = 2, found = 0; found < 64; candidate += 1) {
  let prime = true;
  for (let d = 2; d * d <= candidate; d += 1) if (candidate % d === 0) prime = false;
  if (!prime) continue;
  if (found < 8) START[found] = ((Math.sqrt(candidate) % 1) * 2 ** 32) | 0;
  K[found] = ((Math.cbrt(candidate) % 1) * 2 ** 32) | 0;
  found += 1;
}

/** Takes the whole blocks of `bytes` from `at` to `end` into the state (section 6.2.2). */
function compress(state, bytes, at, end) {
  let [h0, h1, h2, h3, h4, h5, h6, h7] = state;
  for (; at < end; at += 64) {
    for (let i = 0, p = at; i < 16; i += 1, p += 4) {
      W[i] = (bytes[p] << 24) | (bytes[p + 1] << 16) | (bytes[p + 2] << 8) | bytes[p + 3];
    }
    for (let i = 16; i < 64; i += 1) {
      const x = W[i - 15];
      const y = W[i - 2];
      const s0 = ((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3);
      const s1 = ((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10);
      W[i] = (W[i - 16] + s0 + W[i - 7] + s1) | 0;
    }
    // Eight rounds at a time, so that the eight words change places by name and are not moved.
    let a = h0, b = h1, c = h2, d = h3, e = h4, f = h5, g = h6, h = h7;
    for (let i = 0; i < 64; i += 8) {
      h = (h + ((e >>> 6 | e << 26) ^ (e >>> 11 | e << 21) ^ (e >>> 25 | e << 7)) + (g ^ (e & (f ^ g))) + K[i + 0] + W[i + 0]) | 0;
      d = (d + h) | 0;
      h = (h + ((a >>> 2 | a << 30) ^ (a >>> 13 | a << 19) ^ (a >>> 22 | a << 10)) + ((a & b) | (c & (a | b)))) | 0;
      g = (g + ((d >>> 6 | d << 26) ^ (d >>> 11 | d << 21) ^ (d >>> 25 | d << 7)) + (f ^ (d & (e ^ f))) + K[i + 1] + W[i + 1]) | 0;
      c = (c + g) | 0;
      g = (g + ((h >>> 2 | h << 30) ^ (h >>> 13 | h << 19) ^ (h >>> 22 | h << 10)) + ((h & a) | (b & (h | a)))) | 0;
      f = (f + ((c >>> 6 | c << 26) ^ (c >>> 11 | c << 21) ^ (c >>> 25 | c << 7)) + (e ^ (c & (d ^ e))) + K[i + 2] + W[i + 2]) | 0;
      b = (b + f) | 0;
      f = (f + ((g >>> 2 | g << 30) ^ (g >>> 13 | g << 19) ^ (g >>> 22 | g << 10)) + ((g & h) | (a & (g | h)))) | 0;
      e = (e + ((b >>> 6 | b << 26) ^ (b >>> 11 | b << 21) ^ (b >>> 25 | b << 7)) + (d ^ (b & (c ^ d))) + K[i + 3] + W[i + 3]) | 0;
      a = (a + e) | 0;
      e = (e + ((f >>> 2 | f << 30) ^ (f >>> 13 | f << 19) ^ (f >>> 22 | f << 10)) + ((f & g) | (h & (f | g)))) | 0;
      d = (d + ((a >>> 6 | a << 26) ^ (a >>> 11 | a << 21) ^ (a >>> 25 | a << 7)) + (c ^ (a & (b ^ c))) + K[i + 4] + W[i + 4]) | 0;
      h = (h + d) | 0;
      d = (d + ((e >>> 2 | e << 30) ^ (e >>> 13 | e << 19) ^ (e >>> 22 | e << 10)) + ((e & f) | (g & (e | f)))) | 0;
      c = (c + ((h >>> 6 | h << 26) ^ (h >>> 11 | h << 21) ^ (h >>> 25 | h << 7)) + (b ^ (h & (a ^ b))) + K[i + 5] + W[i + 5]) | 0;
      g = (g + c) | 0;
      c = (c + ((d >>> 2 | d << 30) ^ (d >>> 13 | d << 19) ^ (d >>> 22 | d << 10)) + ((d & e) | (f & (d | e)))) | 0;
      b = (b + ((g >>> 6 | g << 26) ^ (g >>> 11 | g << 21) ^ (g >>> 25 | g << 7)) + (a ^ (g & (h ^ a))) + K[i + 6] + W[i + 6]) | 0;
      f = (f + b) | 0;
      b = (b + ((c >>> 2 | c << 30) ^ (c >>> 13 | c << 19) ^ (c >>> 22 | c << 10)) + ((c & d) | (e & (c | d)))) | 0;
      a = (a + ((f >>> 6 | f << 26) ^ (f >>> 11 | f << 21) ^ (f >>> 25 | f << 7)) + (h ^ (f & (g ^ h))) + K[i + 7] + W[i + 7]) | 0;
      e = (e + a) | 0;
      a = (a + ((b >>> 2 | b << 30) ^ (b >>> 13 | b << 19) ^ (b >>> 22 | b << 10)) + ((b & c) | (d & (b | c)))) | 0;
    }
    h0 = (h0 + a) | 0;
    h1 = (h1 + b) | 0;
    h2 = (h2 + c) | 0;
    h3 = (h3 + d) | 0;
    h4 = (h4 + e) | 0;
    h5 = (h5 + f) | 0;
    h6 = (h6 + g) | 0;
    h7 = (h7 + h) | 0;
  }
  state.set([h0, h1, h2, h3, h4, h5, h6, h7]);
}

export class Sha256 {
  #state = new Int32Array(START);
  #block = new Uint8Array(64);
  #filled = 0;
  #length = 0;

  update(bytes) {
    this.#length += bytes.length;
    let at = 0;
    if (this.#filled) {
      at = Math.min(64 - this.#filled, bytes.length);
      this.#block.set(bytes.subarray(0, at), this.#filled);
      this.#filled += at;
      if (this.#filled < 64) return this;
      compress(this.#state, this.#block, 0, 64);
      this.#filled = 0;
    }
    const end = bytes.length - ((bytes.length - at) % 64);
    compress(this.#state, bytes, at, end);
    at = end;
    this.#block.set(bytes.subarray(at));
    this.#filled = bytes.length - at;
    return this;
  }

  hex() {
    const bits = this.#length * 8;
    const tail = new Uint8Array(this.#filled < 56 ? 64 - this.#filled : 128 - this.#filled);
    tail[0] = 0x80;
    const view = new DataView(tail.buffer);
    view.setUint32(tail.length - 8, Math.floor(bits / 2 ** 32));
    view.setUint32(tail.length - 4, bits % 2 ** 32);
    this.update(tail);
    return [...this.#state].map((word) => (word >>> 0).toString(16).padStart(8, "0")).join("");
  }
}
