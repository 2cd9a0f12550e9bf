// Keys of a page: an element with data-key is clicked by its key, or focused if it is a field (as / for a search). One
// with data-key-seen, which cannot be taken back, is first scrolled into view if the person cannot see it, and a key that
// is held clicks it once.
"use strict";
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  const typing = event.target.closest("input, textarea, select, [contenteditable], [role=combobox], [role=listbox], .q-dialog");
  if (event.key === "Escape" ? document.querySelector(".q-menu, .q-dialog, .menu[open]") : typing) return;
  const shown = (element) => element.offsetParent !== null || getComputedStyle(element).position === "fixed";
  const all = [...document.querySelectorAll(`[data-key="${CSS.escape(event.key)}"]`)].filter(shown);
  const here = document.activeElement?.closest(".score-line"); // a key is for the line with the focus, or else the first
  const found = all.find((element) => here?.contains(element)) ?? all[0];
  if (!found) return;
  event.preventDefault();
  if ("keySeen" in found.dataset && event.repeat) return;
  const { top, bottom } = found.getBoundingClientRect();
  if ("keySeen" in found.dataset && (top < 0 || bottom > innerHeight)) {
    found.closest("article").scrollIntoView({ block: "center" });
    found.focus({ preventScroll: true });
  } else if (found.matches("input, textarea")) found.focus();
  else found.click();
});
