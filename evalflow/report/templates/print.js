// What is folded on a screen is printed too.
addEventListener("beforeprint", () => {
  for (const one of document.querySelectorAll("details.fold:not([open])")) {
    one.open = true;
    one.dataset.folded = "";
  }
});
addEventListener("afterprint", () => {
  for (const one of document.querySelectorAll("details[data-folded]")) {
    one.open = false;
    delete one.dataset.folded;
  }
});
