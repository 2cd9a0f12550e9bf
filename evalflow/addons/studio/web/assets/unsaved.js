// Asks before a page is left whose forms (data-unsaved) hold something else than when they were first touched: by a
// link, by the browser's own buttons, or by closing the tab. What the fields show is compared, not what was typed, so a
// change that is taken back asks nothing, and one that the server made (steps by a judge, an example) does. Without a
// connection the page is loaded anew once the server is back: then it asks only about what drafts.js does not keep.
"use strict";
(() => {
  const FIELDS = ".q-select, [role=checkbox], input:not([type=file]), textarea";
  const before = new Map(); // by form: what its fields showed

  function shown(field) {
    if (field.matches(".q-select")) return field.querySelector(".q-field__native")?.textContent.trim();
    if (field.matches("[role=checkbox]")) return field.getAttribute("aria-checked");
    return field.type === "radio" || field.type === "checkbox" ? field.checked : field.value;
  }

  function isKept(field) {
    const kept = document.documentElement.dataset.keepsDrafts;
    return kept !== undefined && field.matches(kept) && field.closest("[data-draft]") !== null;
  }

  function state(form) {
    const fields = [...form.querySelectorAll(FIELDS)].filter((field) => !field.parentElement.closest(".q-select"));
    const all = JSON.stringify(fields.map(shown));
    const unkept = JSON.stringify([fields.length, fields.filter((field) => !isKept(field)).map(shown)]);
    return {all, unkept};
  }

  function touched() {
    for (const form of document.querySelectorAll("[data-unsaved]")) {
      if (!before.has(form)) before.set(form, state(form));
    }
  }

  function isChanged([form, then]) {
    const part = window.socket?.connected === false ? "unkept" : "all";
    return form.isConnected && state(form)[part] !== then[part];
  }

  for (const touch of ["pointerdown", "keydown", "focusin", "dragenter"]) document.addEventListener(touch, touched, true);
  document.addEventListener("saved", (event) => {
    if (event.detail) before.delete(document.getElementById(event.detail));
    else before.clear();
  });
  addEventListener("beforeunload", (event) => {
    if ([...before].some(isChanged)) event.preventDefault();
  });
})();
