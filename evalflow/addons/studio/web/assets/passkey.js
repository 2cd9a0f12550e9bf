// Passkeys: asks the server for options, the device for an answer, and sends it. Purposes: enter, join, confirm, add.
(() => {
  async function send(path, body) {
    const headers = { "Content-Type": "application/json" };
    const reply = await fetch(path, { method: "POST", headers, body: JSON.stringify(body) });
    const content = await reply.json();
    if (!reply.ok) throw new Error(content.detail || reply.statusText);
    return content;
  }

  async function usePasskey(purpose, more = {}) {
    if (!window.PublicKeyCredential?.parseRequestOptionsFromJSON) throw new Error("This browser cannot use passkeys.");
    const options = await send("/passkey/options", { purpose, ...more });
    const made = purpose === "join" || purpose === "add"
      ? await navigator.credentials.create({ publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(options) })
      : await navigator.credentials.get({ publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(options) });
    return send("/passkey", { purpose, answer: made.toJSON(), ...more });
  }

  // What went wrong, for people; empty if nothing did.
  window.passkeyFault = async (purpose) => {
    try {
      await usePasskey(purpose);
      return "";
    } catch (error) {
      return told(error);
    }
  };

  function told(error) {
    const names = ["NotAllowedError", "AbortError"];
    if (error.name === "InvalidStateError") return "This device has a passkey of your account already.";
    return names.includes(error.name) ? "The passkey was not used. Try again." : error.message;
  }

  document.addEventListener("click", async (event) => {
    const button = event.target.closest?.("button[data-passkey]");
    if (!button) return;
    const fault = document.querySelector(".fault");
    fault.hidden = true;
    button.disabled = true;
    try {
      const { passkey, code, next } = button.dataset;
      location.assign((await usePasskey(passkey, { code, next })).next);
    } catch (error) {
      fault.textContent = told(error);
      fault.hidden = false;
      button.disabled = false;
    }
  });
})();
