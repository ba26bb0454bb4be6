// Browsers start no Worker for a page that is opened from the disk. There, run the script of the
// search in a hidden frame instead; Material would load such a script from the network.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.scope = frame.contentWindow;
      this.waiting = [];
      this.scope.postMessage = (data) => {
        const event = new MessageEvent("message", { data });
        setTimeout(() => this.dispatchEvent(event));
      };
      const script = this.scope.document.createElement("script");
      script.src = new URL(url, location.href);
      script.onload = () => {
        this.loaded = true;
        this.waiting.forEach((data) => this.deliver(data));
      };
      this.scope.document.body.append(script);
    }

    postMessage(data) {
      this.loaded ? this.deliver(data) : this.waiting.push(data);
    }

    deliver(data) {
      this.scope.dispatchEvent(new MessageEvent("message", { data }));
    }
  };
}
