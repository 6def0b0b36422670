/* Signing keys that live in this browser, and DSSE signatures made with them.

   A key is a WebCrypto ECDSA P-256 pair whose private half can be used but never read: not by this
   script, not by the server. It is kept in IndexedDB, one store for the device, marked with its user.
   Records: { keyid, user, name, publicKey (base64 SubjectPublicKeyInfo), privateKey, created }. */

const DATABASE = "covenant-signing";
const STORE = "keys";
const CURVE = { name: "ECDSA", namedCurve: "P-256" };
const SIGNATURE = { name: "ECDSA", hash: "SHA-256" };

/** Why this browser cannot sign; `reason` is "no-crypto" or "no-storage". */
export class CannotSign extends Error {
  constructor(reason, cause) {
    super(reason, { cause });
    this.reason = reason;
  }
}

function subtle() {
  // Only in a secure context: https, or this machine.
  if (!globalThis.crypto?.subtle) throw new CannotSign("no-crypto");
  return globalThis.crypto.subtle;
}

function finished(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
    request.onblocked = () => reject(new Error("blocked"));
  });
}

async function openDatabase() {
  try {
    const request = globalThis.indexedDB.open(DATABASE, 1);
    request.onupgradeneeded = () => {
      request.result.createObjectStore(STORE, { keyPath: "keyid" }).createIndex("user", "user");
    };
    return await finished(request);
  } catch (error) {
    // Private windows and strict settings have no IndexedDB, or one that refuses to open.
    throw new CannotSign("no-storage", error);
  }
}

async function withStore(mode, act) {
  const database = await openDatabase();
  try {
    const transaction = database.transaction(STORE, mode);
    const done = new Promise((resolve, reject) => {
      transaction.oncomplete = resolve;
      transaction.onabort = transaction.onerror = () => reject(transaction.error);
    });
    const result = await finished(act(transaction.objectStore(STORE)));
    await done;
    return result;
  } catch (error) {
    throw new CannotSign("no-storage", error);
  } finally {
    database.close();
  }
}

export function toBase64(bytes) {
  let text = "";
  for (const byte of new Uint8Array(bytes)) text += String.fromCharCode(byte);
  return btoa(text);
}

export async function sha256(bytes) {
  return new Uint8Array(await subtle().digest("SHA-256", bytes));
}

export async function sha256Hex(bytes) {
  return Array.from(await sha256(bytes), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** This user's keys on this device, newest first. */
export async function listKeys(user) {
  const found = await withStore("readonly", (store) => store.index("user").getAll(user));
  return found.sort((a, b) => b.created.localeCompare(a.created));
}

/** Make a key for `user`, keep it here, and give its record. */
export async function createKey(user, name) {
  const pair = await subtle().generateKey(CURVE, false, ["sign", "verify"]);
  const spki = await subtle().exportKey("spki", pair.publicKey);
  const record = {
    keyid: await sha256Hex(spki),
    user,
    name,
    publicKey: toBase64(spki),
    privateKey: pair.privateKey,
    created: new Date().toISOString(),
  };
  await withStore("readwrite", (store) => store.add(record));
  return record;
}

export async function forgetKey(keyid) {
  await withStore("readwrite", (store) => store.delete(keyid));
}

/** The bytes that are signed: DSSEv1 LEN(type) type LEN(payload) payload. */
export function pae(payloadType, payload) {
  const encoder = new TextEncoder();
  const type = encoder.encode(payloadType);
  const head = encoder.encode(`DSSEv1 ${type.length} ${payloadType} ${payload.length} `);
  const message = new Uint8Array(head.length + payload.length);
  message.set(head);
  message.set(payload, head.length);
  return message;
}

async function rawSignature(key, message) {
  // Raw r‖s, as WebCrypto gives it.
  return toBase64(await subtle().sign(SIGNATURE, key.privateKey, message));
}

/** A DSSE envelope over `payload` (Uint8Array) by a key of this browser. */
export async function signDsse(key, payload, payloadType) {
  const sig = await rawSignature(key, pae(payloadType, payload));
  return { payload: toBase64(payload), payloadType, signatures: [{ keyid: key.keyid, sig }] };
}

const ROTATION = "application/vnd.covenant.key-rotation+json";

/** What says that `next` takes the place of `old`, signed by both; both are records of this browser. */
export async function signRotation(owner, old, next) {
  // Canonical (RFC 8785): members in order, no space.
  const document = { apiVersion: "covenant/v1", kind: "KeyRotation", new: next.keyid, old: old.keyid, owner };
  const payload = new TextEncoder().encode(JSON.stringify(document));
  const envelopes = [await signDsse(old, payload, ROTATION), await signDsse(next, payload, ROTATION)];
  return { ...envelopes[0], signatures: envelopes.flatMap((envelope) => envelope.signatures) };
}
