// Search in pages that are opened from disk. Browsers start no worker there, so its script runs in a hidden frame.
if (location.protocol === "file:") {
  // As from a worker: a copy, and later than the call.
  const deliver = (receiver, data) => {
    const copy = structuredClone(data)
    setTimeout(() => receiver.onmessage?.({ data: copy }))
  }

  window.Worker = class {
    onmessage = null
    #waiting = []
    #ready = false

    constructor(script) {
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      this.frame.srcdoc = `<script src="${script}"></` + "script>"
      this.frame.addEventListener("load", () => this.#start())
      document.body.append(this.frame)
    }

    postMessage(data) {
      if (this.#ready) deliver(this.frame.contentWindow, data)
      else this.#waiting.push(data)
    }

    terminate() {
      this.frame.remove()
    }

    #start() {
      this.frame.contentWindow.postMessage = data => deliver(this, data)
      this.#ready = true
      for (const data of this.#waiting.splice(0)) this.postMessage(data)
    }
  }
}
