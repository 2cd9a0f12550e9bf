// Components bring styles along as they are loaded. Those get the page's nonce, so the policy need not allow any style.
"use strict";
(() => {
  const { nonce } = document.currentScript;
  const create = document.createElement.bind(document);
  document.createElement = (name, options) => {
    const element = create(name, options);
    if (element.localName === "style") element.nonce = nonce;
    return element;
  };
})();
