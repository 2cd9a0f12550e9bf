// The colours: the system's, or the ones chosen on this browser. Loaded before the first paint, so nothing flashes.
"use strict";
(() => {
  const KEY = "evalflow-colours";
  const system = matchMedia("(prefers-color-scheme: dark)");
  const chosen = () => localStorage.getItem(KEY) ?? "system";

  function apply() {
    const dark = chosen() === "dark" || (chosen() === "system" && system.matches);
    document.documentElement.dataset.colours = dark ? "dark" : "light";
    if (globalThis.Quasar) Quasar.Dark.set(dark);
    for (const button of document.querySelectorAll("[data-colours-choice]")) {
      button.setAttribute("aria-pressed", String(button.dataset.coloursChoice === chosen()));
    }
  }

  apply();
  system.addEventListener("change", apply);
  addEventListener("storage", apply); // chosen in another tab
  addEventListener("load", () => {
    apply(); // the page's elements are there
    // The next pages show times in this zone. Not before the page is there: setting a cookie waits for another process.
    const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
    document.cookie = `evalflow-zone=${zone}; path=/; max-age=31536000; samesite=strict`;
  });
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-colours-choice]");
    if (!button) return;
    localStorage.setItem(KEY, button.dataset.coloursChoice);
    apply();
  });

  // The menus of the rail close as menus do.
  document.addEventListener("click", (event) => {
    for (const menu of document.querySelectorAll(".menu[open]")) if (!menu.contains(event.target)) menu.open = false;
  });
  document.addEventListener("keydown", (event) => {
    const menu = event.key === "Escape" && document.querySelector(".menu[open]");
    if (!menu) return;
    menu.open = false;
    menu.querySelector("summary").focus();
  });
})();
