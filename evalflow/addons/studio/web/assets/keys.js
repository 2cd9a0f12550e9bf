// Keys of a page: an element with data-key is clicked by its key, or focused if it is a field (as / for a search).
"use strict";
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  const typing = event.target.closest("input, textarea, select, [contenteditable], [role=combobox], [role=listbox], .q-dialog");
  if (event.key === "Escape" ? document.querySelector(".q-menu, .q-dialog, .menu[open]") : typing) return;
  const shown = (element) => element.offsetParent !== null || getComputedStyle(element).position === "fixed";
  const found = [...document.querySelectorAll(`[data-key="${CSS.escape(event.key)}"]`)].find(shown);
  if (!found) return;
  event.preventDefault();
  if (found.matches("input, textarea")) found.focus();
  else found.click();
});
