/* Requests to our own API: CSRF header, JSON, and RFC 9457 problems as errors.

   const { body, response } = await send("PUT", url, { json: {…}, headers: {"If-Match": "12"} })
   throws Problem (status, code, message = detail, hint, body, response); status 0: not reachable. */

export class Problem extends Error {
  constructor({ status = 0, code = "", detail = "", hint = "", body = null, response = null }) {
    super(detail);
    Object.assign(this, { status, code, hint, body, response });
  }

  /** What happened and what to do next, for a person. */
  get sentence() {
    return [this.message, this.hint].filter(Boolean).join(" ");
  }
}

export function csrfToken() {
  return document.querySelector('meta[name="csrf-token"]')?.content ?? "";
}

/** A problem document from text, or null when the text is none. */
export function parseProblem(text) {
  try {
    const body = JSON.parse(text);
    return body && typeof body === "object" && ("detail" in body || "title" in body) ? body : null;
  } catch {
    return null;
  }
}

export async function send(method, url, { json, headers = {}, signal } = {}) {
  const options = { method, signal, headers: { Accept: "application/json", ...headers } };
  if (method !== "GET") options.headers["X-CSRFToken"] = csrfToken();
  if (json !== undefined) {
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(json);
  }
  let response;
  let text;
  try {
    response = await fetch(url, options);
    text = await response.text();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem({});
  }
  if (!response.ok) {
    const body = parseProblem(text);
    throw new Problem({
      status: response.status,
      code: body?.code,
      detail: body?.detail ?? body?.title ?? "",
      hint: body?.hint,
      body,
      response,
    });
  }
  return { response, body: text ? JSON.parse(text) : null };
}
