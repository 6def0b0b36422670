/* A tus 1.0.0 client: creation, upload in chunks, resumption, termination (https://tus.io/protocols/resumable-upload).

   const upload = new TusUpload({ endpoint, file, sha256, chunk, onProgress, onRetry })   chunk: bytes, 8 MiB
   await upload.run()      creates (or goes on with a remembered one) and sends to the end; resolves {id, url}
   upload.pause()          stops sending; run() goes on
   await upload.cancel()   stops and removes what was sent
   Broken connections and 5xx are tried again with growing waits; what the server refuses throws Problem. */

import { csrfToken, parseProblem, Problem } from "./http.js";

const LONGEST_WAIT = 30;
const VERSION = { "Tus-Resumable": "1.0.0" };

const encode = (text) => btoa(String.fromCharCode(...new TextEncoder().encode(text)));
const key = (endpoint, file) => ["covenant-upload", endpoint, file.name, file.size, file.lastModified].join("|");

/** Uploads to `endpoint` that this browser began and did not finish: [{url, name, size, sha256}]. */
export function remembered(endpoint) {
  const prefix = `covenant-upload|${endpoint}|`;
  return Object.keys(localStorage)
    .filter((name) => name.startsWith(prefix))
    .map((name) => JSON.parse(localStorage.getItem(name)));
}

function call(method, url, { headers = {}, body = null, onProgress, signal } = {}) {
  // XMLHttpRequest, because fetch does not tell how much of a body has been sent.
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open(method, url);
    for (const [name, value] of Object.entries({ ...VERSION, "X-CSRFToken": csrfToken(), ...headers })) {
      request.setRequestHeader(name, value);
    }
    if (onProgress) request.upload.onprogress = (event) => onProgress(event.loaded);
    request.onload = () => resolve(request);
    request.onerror = () => reject(new Problem({}));
    request.onabort = () => reject(new DOMException("stopped", "AbortError"));
    signal?.addEventListener("abort", () => request.abort(), { once: true });
    request.send(body);
  });
}

function expect(request, ...statuses) {
  if (statuses.includes(request.status)) return request;
  const body = parseProblem(request.responseText);
  const detail = body?.detail ?? body?.title ?? `HTTP ${request.status}`;
  throw new Problem({ status: request.status, code: body?.code, detail, hint: body?.hint, body });
}

const worthAnotherTry = (error) => error instanceof Problem && (error.status === 0 || (error.status >= 500 && error.status !== 507) || [409, 423, 429].includes(error.status));
const gone = (error) => error instanceof Problem && [404, 410].includes(error.status);

export class TusUpload {
  constructor({ endpoint, file, sha256 = "", chunk = 8 * 1024 * 1024, onProgress = () => {}, onRetry = () => {} }) {
    Object.assign(this, { endpoint, file, sha256, chunk, onProgress, onRetry });
    this.key = key(endpoint, file);
    const known = JSON.parse(localStorage.getItem(this.key) ?? "null");
    this.url = known?.url ?? "";
    this.sha256 = sha256 || (known?.sha256 ?? "");
    this.offset = 0;
  }

  async run() {
    this.stop = new AbortController();
    const { signal } = this.stop;
    for (let failures = 0; ; ) {
      try {
        await this.#begin(signal);
        while (this.offset < this.file.size) {
          await this.#sendChunk(signal);
          failures = 0;
        }
        localStorage.removeItem(this.key);
        return { id: this.url.replace(/\/$/, "").split("/").pop(), url: this.url };
      } catch (error) {
        if (gone(error) && this.url) this.#forget(); // expired on the server: from the beginning
        else if (!worthAnotherTry(error)) throw this.#final(error);
        failures += 1;
        const seconds = Math.min(2 ** (failures - 1), LONGEST_WAIT);
        this.onRetry(seconds);
        await this.#wait(seconds, signal);
      }
    }
  }

  pause() {
    this.stop?.abort();
  }

  async cancel() {
    this.pause();
    const { url } = this;
    this.#forget();
    if (url) expect(await call("DELETE", url), 204, 404, 410);
  }

  async #begin(signal) {
    if (this.url) {
      const request = expect(await call("HEAD", this.url, { signal }), 200, 204);
      this.offset = Number(request.getResponseHeader("Upload-Offset"));
    } else {
      const metadata = [`filename ${encode(this.file.name)}`];
      if (this.sha256) metadata.push(`sha256 ${encode(this.sha256)}`);
      const headers = { "Upload-Length": String(this.file.size), "Upload-Metadata": metadata.join(",") };
      const request = expect(await call("POST", this.endpoint, { headers, signal }), 201);
      this.url = new URL(request.getResponseHeader("Location"), location.href).pathname;
      this.offset = 0;
      const { name, size } = this.file;
      localStorage.setItem(this.key, JSON.stringify({ url: this.url, name, size, sha256: this.sha256 }));
    }
    this.onProgress(this.offset);
  }

  async #sendChunk(signal) {
    const start = this.offset;
    const request = await call("PATCH", this.url, {
      headers: { "Content-Type": "application/offset+octet-stream", "Upload-Offset": String(start) },
      body: this.file.slice(start, start + this.chunk),
      onProgress: (sent) => this.onProgress(start + sent),
      signal,
    });
    expect(request, 200, 204);
    this.offset = Number(request.getResponseHeader("Upload-Offset"));
    this.onProgress(this.offset);
  }

  #forget() {
    localStorage.removeItem(this.key);
    this.url = "";
    this.offset = 0;
  }

  #final(error) {
    // Bytes that were refused must not be gone on with.
    if (error instanceof Problem) this.#forget();
    return error;
  }

  #wait(seconds, signal) {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(resolve, seconds * 1000);
      signal.addEventListener("abort", () => {
        clearTimeout(timer);
        reject(new DOMException("stopped", "AbortError"));
      });
    });
  }
}
