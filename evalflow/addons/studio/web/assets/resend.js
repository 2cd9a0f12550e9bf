// Sends again what was typed just before the connection was lost. A browser notices the loss only after seconds; what it
// sends until then reaches no server, and NiceGUI does not repeat it. The last message to each listener of a text field
// is sent again if the field still shows its text: socket.io keeps it, before all that follows, until it is connected
// again. A server that has the text already does nothing. A page that is loaded anew has its texts from drafts.js and
// desk.js.
"use strict";
(() => {
  const sent = new Map(); // by the ids of an element and of its listener
  let watched;

  const field = (message) => document.querySelector(`input#c${message.id}, textarea#c${message.id}`);
  const isShown = (message) => String(JSON.parse(message.args[0]) ?? "") === field(message)?.value;

  function watch() {
    if (!window.socket || watched === window.socket) return;
    watched = window.socket;
    watched.onAnyOutgoing((name, message) => {
      if (name === "event" && message.args.length === 1 && field(message)) {
        sent.set(`${message.id} ${message.listener_id}`, message);
      }
    });
    watched.on("disconnect", () => {
      const again = [...sent.values()].filter(isShown);
      sent.clear();
      for (const message of again) watched.emit("event", message);
    });
  }

  document.addEventListener("input", watch, true);
})();
