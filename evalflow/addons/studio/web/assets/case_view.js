// A case as it is read: its tabs, and the switches that mark what differs or show all of a text.
"use strict";
(() => {
  const tabs = (list) => [...list.querySelectorAll("[role=tab]")];

  function choose(tab) {
    for (const one of tabs(tab.parentElement)) {
      const isChosen = one === tab;
      one.setAttribute("aria-selected", isChosen);
      one.tabIndex = isChosen ? 0 : -1;
      document.getElementById(one.getAttribute("aria-controls")).hidden = !isChosen;
    }
  }

  document.addEventListener("click", (event) => {
    const tab = event.target.closest(".case-reading [role=tab]");
    if (tab) choose(tab);
    const toggle = event.target.closest(".case-reading [data-toggles]");
    if (toggle) {
      const isOn = toggle.closest(".case-reading").classList.toggle(toggle.dataset.toggles);
      toggle.setAttribute("aria-pressed", isOn);
    }
  });

  document.addEventListener("keydown", (event) => {
    const tab = event.target.closest?.(".case-reading [role=tab]");
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!tab || !step) return;
    const all = tabs(tab.parentElement);
    const isReversed = getComputedStyle(tab).direction === "rtl";
    const next = all[(all.indexOf(tab) + (isReversed ? -step : step) + all.length) % all.length];
    choose(next);
    next.focus();
    event.preventDefault();
    event.stopPropagation();
  }, true);

  // An address that the page has written itself: what it showed then is shown again.
  addEventListener("popstate", () => globalThis.emitEvent?.("address", location.search));
})();
