"""Finds in a page what only people who program should read."""

from __future__ import annotations

PLAIN = """() => {
  const faults = [], walk = document.createTreeWalker(document.querySelector("#app"), NodeFilter.SHOW_TEXT);
  const run = /\\d{4}-\\d\\d-\\d\\dT\\S+/g;
  const told = /[\\w\\]]=\\S|conf\\/|python -m|\\b[a-z]+([.][a-z_]+){2,}|[a-z]_[a-z]/;
  while (walk.nextNode()) {
    const node = walk.currentNode, content = node.data.trim();
    if (!content || !node.parentElement.checkVisibility()) continue;
    if (node.parentElement.closest("code, pre, .code, .prose, textarea, .answer, .marked, .q-icon")) continue;
    if (told.test(content.replaceAll(run, ""))) faults.push(content.slice(0, 160));
  }
  for (const field of document.querySelectorAll("[placeholder]:not(.code *), [aria-label]"))
    for (const said of [field.placeholder, field.ariaLabel]) if (said && told.test(said)) faults.push(said);
  return faults;
}"""
"""What nobody should read who does not program: overrides, key paths, identifiers and commands, outside of code, of
answers and of the values of what changed. Variables of keys and ids of runs are in other letters."""
