// Keys of the desk. A key presses the button that shows it, so that keys and the mouse can do the same.
"use strict";
(() => {
  const typing = (field) => field.matches("textarea, [contenteditable], input:not([type=number])");
  const gradings = () => [...document.querySelectorAll(".desk .grading")];

  /** The metric that has the focus, or else the first. */
  function current() {
    return document.activeElement?.closest(".grading") ?? gradings()[0];
  }

  function first(grading) {
    return grading.querySelector("[aria-pressed=true]") ?? grading.querySelector("input, .grades button");
  }

  function press(button) {
    if (!button) return false;
    const isOfMetric = button.closest(".grading");
    button.click();
    if (isOfMetric) button.focus();
    return true;
  }

  function move(step) {
    const all = gradings();
    const there = all[all.indexOf(current()) + (document.activeElement?.closest(".grading") ? step : 0)];
    if (!there) return false;
    first(there).focus();
    there.scrollIntoView({ block: "nearest" });
    return true;
  }

  function act(event) {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      // What is typed is sent with a delay; leaving the field sends it at once, before the click.
      document.activeElement?.blur();
      return press(document.querySelector(".desk .submit"));
    }
    if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return false;
    const key = event.key.toLowerCase();
    if (key === "arrowdown" || key === "arrowright") return move(1);
    if (key === "arrowup" || key === "arrowleft") return move(-1);
    if (/^[1-9]$/.test(key) && event.target.matches("input")) return false; // a number is typed
    if (/^[1-9]$/.test(key) || key === "u") return press(current()?.querySelector(`[data-desk-key="${key}"]`));
    if (key === "f" || key === "?") return press(document.querySelector(`.desk [data-desk-key="${key}"]`));
    return false;
  }

  document.addEventListener("keydown", (event) => {
    if (document.querySelector(".desk .submit") && !document.querySelector(".q-dialog") && act(event)) {
      event.preventDefault();
    }
  });

  // Time away from the page is not time spent on an answer.
  document.addEventListener("visibilitychange", () => {
    if (document.querySelector(".desk")) emitEvent("desk_away", document.hidden);
  });

  // What is typed while the connection is lost reaches no server; it is kept for the page that loads when it is back.
  const TYPED = "desk comment";
  const answer = () => location.pathname + "#" + document.querySelector(".desk").dataset.answer;

  document.addEventListener("input", (event) => {
    if (event.target.matches(".desk textarea")) {
      sessionStorage.setItem(TYPED, JSON.stringify([answer(), event.target.value]));
    }
  });

  function restore() {
    const [typedAt, typed] = JSON.parse(sessionStorage.getItem(TYPED) ?? "[]");
    const field = document.querySelector(".desk textarea");
    if (typedAt !== answer()) sessionStorage.removeItem(TYPED);
    else if (field.value !== typed) {
      field.value = typed;
      field.dispatchEvent(new Event("input", { bubbles: true }));
    }
  }

  globalThis.beginAnswer = () => {
    restore();
    const grading = gradings()[0];
    if (grading) first(grading).focus({ preventScroll: true });
    scrollTo({ top: 0 });
  };
})();
