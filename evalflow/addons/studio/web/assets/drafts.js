// Keeps what is typed into forms (data-draft, whose value is the person) in this browser, by person and page, until it
// is saved. A page whose form has a draft offers it; without a connection, it says that nothing is lost. Only texts of
// such forms are kept, which hold no keys; unsaved.js has their selector from data-keeps-drafts. Signing out (a form
// with data-signs-out, whose value is the person) removes all of that person's, on the page that it leads to: who stays,
// or whose server does not answer, keeps them.
"use strict";
(() => {
  const PREFIX = "evalflow-draft ", LEAVING = "evalflow-leaving", OLDEST_MS = 30 * 24 * 3600 * 1000, PAUSE_MS = 400;
  const FIELDS = "textarea, input:not([type]), input[type=text], input[type=number]";
  let storage;
  try { storage = window.localStorage; } catch { return; } // it is off: unsaved.js still asks before a page is left
  document.documentElement.dataset.keepsDrafts = FIELDS;
  let before = null, waiting, isOffered = false, isTyped = false;

  const forms = () => [...document.querySelectorAll("[data-draft]")];
  const place = () => `${PREFIX}${forms()[0]?.dataset.draft ?? ""} ${location.pathname}${location.search}`;

  function fields() {
    const found = new Map();
    for (const field of forms().flatMap((form) => (form.matches(FIELDS) ? [form] : [...form.querySelectorAll(FIELDS)]))) {
      if (field.closest(".q-select")) continue;
      const label = field.labels?.[0]?.textContent ?? field.ariaLabel ?? field.placeholder ?? "";
      let number = 1;
      while (found.has(`${label} ${number}`)) number += 1;
      found.set(`${label} ${number}`, field);
    }
    return found;
  }

  const shown = () => Object.fromEntries([...fields()].map(([name, field]) => [name, field.value]));

  function read() {
    try {
      return JSON.parse(storage.getItem(place()) ?? "null");
    } catch {
      return null; // another program wrote it
    }
  }

  function keep() {
    waiting = undefined;
    if (before === null) return;
    const typed = Object.entries(shown()).filter(([name, value]) => name in before && value !== before[name]);
    store(typed, Date.now());
  }

  function store(typed, at) {
    try {
      if (typed.length) storage.setItem(place(), JSON.stringify({at, typed: Object.fromEntries(typed)}));
      else storage.removeItem(place());
    } catch {
      // The browser's storage is full or off; unsaved.js still asks before the page is left.
    }
  }

  function touched(event) {
    if (event.target.closest?.("[data-draft]")) before = {...shown(), ...before};
  }

  function bar(message, ...buttons) {
    document.querySelector(".draft-bar")?.remove();
    const made = document.createElement("div");
    made.className = "undo draft-bar";
    made.setAttribute("role", "status");
    made.append(Object.assign(document.createElement("span"), {textContent: message}));
    for (const [name, act] of buttons) {
      const button = Object.assign(document.createElement("button"), {type: "button", textContent: name});
      button.addEventListener("click", () => { made.remove(); act(); });
      made.append(button);
    }
    document.body.append(made);
  }

  function restore(typed) {
    const known = fields();
    before = {...shown(), ...before};
    for (const [name, value] of Object.entries(typed)) {
      const field = known.get(name);
      if (!field) continue;
      Object.getOwnPropertyDescriptor(Object.getPrototypeOf(field), "value").set.call(field, value);
      for (const event of ["input", "change"]) field.dispatchEvent(new Event(event, {bubbles: true}));
    }
  }

  // The form is drawn after the page is loaded, and again after a conflict.
  function offer() {
    if (isOffered || isTyped || !forms().length) return;
    const draft = read(), now = shown();
    if (!draft || !Object.keys(draft.typed).some((name) => name in now)) return;
    isOffered = true;
    if (Object.entries(draft.typed).every(([name, value]) => now[name] === value)) return;
    const when = new Date(draft.at).toLocaleString([], {dateStyle: "medium", timeStyle: "short"});
    bar(`You typed something here that was not saved (${when}).`,
      ["Restore it", () => restore(draft.typed)], ["Discard it", () => storage.removeItem(place())]);
  }

  // Drops the draft of the form that was saved, or of all forms of the page.
  function saved(event) {
    clearTimeout(waiting);
    if (event.detail) keep();
    waiting = undefined;
    const form = event.detail ? document.getElementById(event.detail) : document;
    const its = new Set([...fields()].filter(([, field]) => form?.contains(field)).map(([name]) => name));
    const others = ([name]) => event.detail && !its.has(name);
    before = before && Object.fromEntries(Object.entries(before).filter(others)); // anew when they are next touched
    const draft = read();
    if (draft) store(Object.entries(draft.typed).filter(others), draft.at);
    document.querySelector(".draft-bar")?.remove();
    isOffered = isTyped = false; // what is left and not shown is offered again
  }

  function lost(event) {
    if (!forms().length || !event.target.closest?.("main button") || window.socket?.connected !== false) return;
    keep();
    bar("The server cannot be reached. What you typed is kept in this browser until you can save it.", ["OK", () => {}]);
  }

  for (const touch of ["pointerdown", "keydown", "focusin"]) document.addEventListener(touch, touched, true);
  document.addEventListener("input", (event) => {
    if (!event.target.closest?.("[data-draft]")) return;
    isTyped = true;
    clearTimeout(waiting);
    waiting = setTimeout(keep, PAUSE_MS);
  }, true);
  document.addEventListener("saved", saved);
  document.addEventListener("click", lost, true);
  document.addEventListener("submit", (event) => {
    if (event.target.dataset.signsOut !== undefined) sessionStorage.setItem(LEAVING, event.target.dataset.signsOut);
  });
  addEventListener("pagehide", () => { if (waiting) keep(); });
  const left = sessionStorage.getItem(LEAVING);
  sessionStorage.removeItem(LEAVING); // on any other page the person has stayed
  if (left !== null && location.pathname === "/sign-in") {
    for (const name of Object.keys(storage)) if (name.startsWith(`${PREFIX}${left} /`)) storage.removeItem(name);
  }
  for (const name of Object.keys(storage)) {
    if (!name.startsWith(PREFIX)) continue;
    let at = 0;
    try { at = JSON.parse(storage.getItem(name)).at; } catch { /* it is removed */ }
    if (!(Date.now() - at < OLDEST_MS)) storage.removeItem(name);
  }
  new MutationObserver(offer).observe(document.documentElement, {childList: true, subtree: true});
})();
