/* Passkeys as signing keys: a DSSE signature by a WebAuthn assertion.

   The challenge is SHA-256 of the bytes that every key signs (the PAE); the envelope carries what the
   authenticator and the browser said beside the signature, so that anybody can check it. */

import { pae, sha256, toBase64 } from "./signing-keys.js";
import { getAssertion } from "./webauthn.js";

const MINUTES = 5;

function standard(base64url) {
  const text = base64url.replaceAll("-", "+").replaceAll("_", "/");
  return text.padEnd(text.length + ((4 - (text.length % 4)) % 4), "=");
}

function urlSafe(bytes) {
  return toBase64(bytes).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** A DSSE envelope over `payload` by the passkey `{ keyid, credential, rpId }`; asks its owner. */
export async function signByPasskey(passkey, payload, payloadType) {
  const { response } = await getAssertion({
    challenge: urlSafe(await sha256(pae(payloadType, payload))),
    rpId: passkey.rpId,
    allowCredentials: [{ type: "public-key", id: passkey.credential }],
    userVerification: "required",
    timeout: MINUTES * 60_000,
  });
  const signature = {
    keyid: passkey.keyid,
    sig: standard(response.signature),
    webauthn: {
      authenticatorData: standard(response.authenticatorData),
      clientDataJSON: standard(response.clientDataJSON),
    },
  };
  return { payload: toBase64(payload), payloadType, signatures: [signature] };
}
