/* Passkeys by WebAuthn: thin promises over navigator.credentials, JSON in and JSON out.

   createCredential(options)   registration, from PublicKeyCredentialCreationOptionsJSON
   getAssertion(options)       sign-in or signature, from PublicKeyCredentialRequestOptionsJSON
   Both give the credential's JSON (toJSON) or throw CannotUsePasskey, whose `reason` is one of
   no-passkeys (this browser has none), wrong-host (the page's host is not the relying party's),
   cancelled (closed, timed out or not verified), known (enrolled on this device already), failed. */

export class CannotUsePasskey extends Error {
  constructor(reason, cause) {
    super(reason, { cause });
    this.reason = reason;
  }
}

const REASONS = {
  NotAllowedError: "cancelled",
  AbortError: "cancelled",
  SecurityError: "wrong-host",
  InvalidStateError: "known",
  NotSupportedError: "no-passkeys",
};

/** Whether this browser can make and use passkeys at all. */
export function supported() {
  return (
    globalThis.isSecureContext === true &&
    typeof globalThis.PublicKeyCredential?.parseCreationOptionsFromJSON === "function" &&
    typeof globalThis.PublicKeyCredential?.parseRequestOptionsFromJSON === "function"
  );
}

async function ask(act) {
  if (!supported()) throw new CannotUsePasskey("no-passkeys");
  try {
    const credential = await act(globalThis.PublicKeyCredential);
    if (!credential) throw new CannotUsePasskey("cancelled");
    return credential.toJSON();
  } catch (error) {
    if (error instanceof CannotUsePasskey) throw error;
    throw new CannotUsePasskey(REASONS[error?.name] ?? "failed", error);
  }
}

export function createCredential(options, { signal } = {}) {
  return ask((kind) =>
    navigator.credentials.create({ publicKey: kind.parseCreationOptionsFromJSON(options), signal }),
  );
}

export function getAssertion(options, { mediation, signal } = {}) {
  return ask((kind) =>
    navigator.credentials.get({ publicKey: kind.parseRequestOptionsFromJSON(options), mediation, signal }),
  );
}
