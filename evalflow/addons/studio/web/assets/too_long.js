// Keeps a text here that is too long for one message to the server, which would lose it and the connection: it is not
// sent, its field says so, and no button does anything until it is shorter.
"use strict";
(() => {
  const MOST = 900_000; // bytes of a message, whose limit is 1,000,000
  const WHY = "This text is too long to be saved here (at most 900,000 characters). Shorten it, or import it from a file.";
  const isText = (element) => element instanceof HTMLTextAreaElement || element instanceof HTMLInputElement;
  const isTooLong = (field) => field.value.length * 6 > MOST && new Blob([JSON.stringify(field.value)]).size > MOST;
  const kept = () => [...document.querySelectorAll("[data-too-long]")];

  function keep(event) {
    const field = event.target;
    if (!isText(field) || field.type === "file") return;
    const is = isTooLong(field);
    if (is !== "tooLong" in field.dataset) {
      field.setCustomValidity(is ? WHY : "");
      if (is) field.dataset.tooLong = "";
      else delete field.dataset.tooLong;
      document.documentElement.classList.toggle("has-too-long", kept().length > 0);
    }
    if (is) field.reportValidity();
  }

  function refuse(event) {
    const isKey = event.type === "keydown";
    if (isKey ? event.key.toLowerCase() !== "s" || !(event.ctrlKey || event.metaKey) : !event.target.closest("main button")) return;
    const [first] = kept();
    if (!first) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    first.scrollIntoView({block: "center"});
    first.reportValidity();
  }

  // NiceGUI's connection, which it sets once: what is too long is shown by Vue as it was typed, and not sent.
  let connection;
  Object.defineProperty(window, "socket", {
    get: () => connection,
    set: (made) => {
      const emit = made.emit.bind(made);
      made.emit = (...sent) => new Blob([JSON.stringify(sent)]).size > MOST ? made : emit(...sent);
      connection = made;
    },
  });

  document.addEventListener("input", keep, true);
  for (const name of ["click", "keydown"]) document.addEventListener(name, refuse, true);
})();
