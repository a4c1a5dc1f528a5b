// Search runs in a Worker, and a page opened from a folder (file:) may not start one.
// There, and only there, run the worker's script in a hidden frame with the same messages.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.srcdoc =
        "<script>" +
        // a worker's postMessage speaks to the page, a window's to itself
        "const heard = [];" +
        "const listen = window.addEventListener.bind(window);" +
        "window.addEventListener = (type, f) => type === 'message' ? heard.push(f) : listen(type, f);" +
        "window.postMessage = (data) => frameElement.reply(data);" +
        "frameElement.send = (data) => heard.forEach((f) => f({ data }));" +
        "<\/script><script src='" + new URL(url, document.baseURI) + "'><\/script>";
      frame.reply = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      frame.addEventListener("load", () => {
        this.send = frame.send;
        this.waiting.splice(0).forEach((data) => this.send(data));
      });
      document.body.append(frame);
    }
    postMessage(data) {
      if (this.send) this.send(data);
      else this.waiting.push(data);
    }
    terminate() {}
  };
}
