// Asks before a page is left whose forms (data-unsaved) hold something else than when they were first touched: by a
// link, by the browser's own buttons, or by closing the tab. What the fields show is compared, not what was typed, so a
// change that is taken back asks nothing, and one that the server made (steps by a judge, an example) does. Without a
// connection nothing is asked if drafts.js keeps all of it: the page is loaded anew once the server is back.
"use strict";
(() => {
  const FIELDS = ".q-select, [role=checkbox], input:not([type=file]), textarea";
  let before = null;

  function shown(field) {
    if (field.matches(".q-select")) return field.querySelector(".q-field__native")?.textContent.trim();
    if (field.matches("[role=checkbox]")) return field.getAttribute("aria-checked");
    return field.type === "radio" || field.type === "checkbox" ? field.checked : field.value;
  }

  function state() {
    const forms = document.querySelectorAll("[data-unsaved]");
    const fields = [...forms].flatMap((form) => [...form.querySelectorAll(FIELDS)]);
    return JSON.stringify(fields.filter((field) => !field.parentElement.closest(".q-select")).map(shown));
  }

  function isKept() {
    const isAway = window.socket?.connected === false && "keepsDrafts" in document.documentElement.dataset;
    return isAway && [...document.querySelectorAll("[data-unsaved]")].every((form) => form.matches("[data-draft]"));
  }

  function touched() {
    if (before === null && document.querySelector("[data-unsaved]")) before = state();
  }

  for (const touch of ["pointerdown", "keydown", "focusin", "dragenter"]) document.addEventListener(touch, touched, true);
  document.addEventListener("saved", () => { before = null; });
  addEventListener("beforeunload", (event) => {
    if (before !== null && before !== state() && !isKept()) event.preventDefault();
  });
})();
