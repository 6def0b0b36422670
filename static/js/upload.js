/* Resumable upload with drag and drop (components/upload.html).

   data-upload with data-upload-endpoint (and data-upload-chunk: bytes of one request); parts are data-upload-{file,drop,run,name,size,progress,status,
   pause,resume,cancel,digest,error,value}. First the SHA-256 is computed in a worker, then the file goes up
   by tus; after a reload or a broken connection the same file goes on where it was.
   Several files at once are taken where data-upload-further names a set for the files beside an .onnx file (upload-set.js).
   Fires "upload:done" {id, url, filename, size, sha256} and "upload:reset"; data-state is
   idle | hashing | sending | paused | done | failed. */

import { bind } from "./bind.js";
import { duration, fileSize, number, t } from "./strings.js";
import { toast } from "./toast.js";
import { remembered, TusUpload } from "./tus.js";

function digestOf(file, onProgress, signal) {
  return new Promise((resolve, reject) => {
    const worker = new Worker(new URL("./sha256-worker.js", import.meta.url), { type: "module" });
    const finish = (settle, value) => {
      worker.terminate();
      settle(value);
    };
    worker.onmessage = ({ data }) => {
      if (data.hex) finish(resolve, data.hex);
      else if (data.error) finish(reject, new Error(data.error));
      else onProgress(data.done);
    };
    worker.onerror = (event) => finish(reject, new Error(event.message));
    signal.addEventListener("abort", () => finish(reject, new DOMException("stopped", "AbortError")));
    worker.postMessage({ file });
  });
}

/** Bytes per second over the last few seconds. */
class Speed {
  #samples = [];

  add(bytes, now = performance.now()) {
    if (this.#samples.length && bytes < this.#samples.at(-1)[1]) this.#samples = []; // sent again from an earlier offset
    this.#samples.push([now, bytes]);
    while (now - this.#samples[0][0] > 5000 && this.#samples.length > 2) this.#samples.shift();
  }

  get value() {
    const [first, last] = [this.#samples[0], this.#samples.at(-1)];
    return last && last[0] > first[0] ? (1000 * (last[1] - first[1])) / (last[0] - first[0]) : 0;
  }
}

class Uploader {
  constructor(element) {
    this.element = element;
    this.endpoint = element.dataset.uploadEndpoint;
    this.part = (name) => element.querySelector(`[data-upload-${name}]`);
  }

  state(name) {
    this.element.dataset.state = name;
    this.part("run").hidden = name === "idle";
    this.part("pause").hidden = name !== "sending";
    this.part("resume").hidden = name !== "paused";
    this.part("cancel").hidden = ["done", "idle"].includes(name);
    this.part("error").hidden = true;
  }

  say(text) {
    this.part("status").textContent = text;
  }

  fail(error) {
    if (error.name === "AbortError") return;
    this.state(this.file ? "failed" : "idle");
    this.part("error").textContent = t("upload_failed", { detail: error.sentence ?? error.message });
    this.part("error").hidden = false;
    this.say("");
  }

  /** The one file to upload; with data-upload-further the others go to the set of that id. */
  mainOf(files) {
    const further = document.getElementById(this.element.dataset.uploadFurther ?? "");
    if (files.length === 1 || !further) return files.length === 1 ? files[0] : null;
    const graphs = [...files].filter((file) => file.name.toLowerCase().endsWith(".onnx"));
    if (graphs.length !== 1) return null;
    const rest = [...files].filter((file) => file !== graphs[0]);
    further.dispatchEvent(new CustomEvent("upload:further", { detail: { files: rest } }));
    return graphs[0];
  }

  async choose(files) {
    const main = this.mainOf(files);
    if (!main) return void this.fail(new Error(t(this.element.dataset.uploadFurther ? "upload_choose_main" : "upload_choose")));
    this.file = main;
    this.part("name").textContent = this.file.name;
    this.part("size").textContent = fileSize(this.file.size);
    this.part("digest").hidden = true;
    this.part("progress").value = 0;
    this.state("hashing");
    this.hashing = new AbortController();
    try {
      this.tus = new TusUpload({
        endpoint: this.endpoint,
        file: this.file,
        chunk: Number(this.element.dataset.uploadChunk) || undefined,
        onProgress: (sent) => this.progress(sent),
        onRetry: (seconds) => this.say(t("upload_retrying", { seconds })),
      });
      this.tus.sha256 ||= await digestOf(this.file, (done) => this.hashed(done), this.hashing.signal);
      this.part("digest").querySelector("code").textContent = this.tus.sha256;
      this.part("digest").hidden = false;
      await this.send();
    } catch (error) {
      this.fail(error);
    }
  }

  hashed(done) {
    const share = this.file.size ? done / this.file.size : 1;
    this.part("progress").value = share;
    this.say(t("upload_hashing", { percent: number(100 * share) }));
  }

  async send() {
    this.speed = new Speed();
    this.state("sending");
    this.say(t("upload_starting"));
    const started = performance.now();
    try {
      const { id, url } = await this.tus.run();
      this.state("done");
      this.part("progress").value = 1;
      const seconds = (performance.now() - started) / 1000;
      this.say(t("upload_done", { total: fileSize(this.file.size), time: duration(seconds) }));
      this.part("value").value = id;
      const detail = { id, url, filename: this.file.name, size: this.file.size, sha256: this.tus.sha256 };
      this.element.dispatchEvent(new CustomEvent("upload:done", { bubbles: true, detail }));
    } catch (error) {
      this.fail(error);
    }
  }

  progress(sent) {
    this.speed.add(sent);
    this.sent = sent;
    this.part("progress").value = this.file.size ? sent / this.file.size : 1;
    const speed = this.speed.value;
    const left = speed ? duration((this.file.size - sent) / speed) : "…";
    this.say(t("upload_sending", { sent: fileSize(sent), total: fileSize(this.file.size), speed: fileSize(speed), left }));
  }

  pause() {
    this.tus.pause();
    this.state("paused");
    this.say(t("upload_paused", { sent: fileSize(this.sent ?? 0), total: fileSize(this.file.size) }));
  }

  async cancel() {
    this.hashing?.abort();
    this.part("file").value = "";
    this.part("value").value = "";
    this.file = null;
    this.state("idle");
    this.element.dispatchEvent(new CustomEvent("upload:reset", { bubbles: true }));
    try {
      await this.tus?.cancel();
      toast(t("upload_cancelled"));
    } catch (error) {
      this.fail(error);
    }
  }

  offer() {
    const [known] = remembered(this.endpoint);
    if (!known) return;
    fetch(known.url, { method: "HEAD", headers: { "Tus-Resumable": "1.0.0" } }).then((response) => {
      if (!response.ok || this.element.dataset.state !== "idle") return;
      const sent = fileSize(Number(response.headers.get("Upload-Offset")));
      const hint = this.element.querySelector(".upload-hint") ?? this.part("drop").appendChild(document.createElement("span"));
      hint.className = "upload-hint";
      hint.textContent = t("upload_resumable", { name: known.name, sent, total: fileSize(known.size) });
    });
  }
}

const mounted = new WeakMap();

/** The uploader of an element; it begins with the first call. */
export function mount(element) {
  if (!mounted.has(element)) {
    mounted.set(element, new Uploader(element));
    listen(mounted.get(element));
  }
  return mounted.get(element);
}

function listen(uploader) {
  const drop = uploader.part("drop");
  const over = (event, on) => {
    event.preventDefault();
    drop.toggleAttribute("data-over", on);
  };
  uploader.part("file").addEventListener("change", (event) => event.target.files.length && uploader.choose(event.target.files));
  drop.addEventListener("dragover", (event) => over(event, true));
  drop.addEventListener("dragleave", (event) => over(event, false));
  drop.addEventListener("drop", (event) => {
    over(event, false);
    uploader.choose(event.dataTransfer.files);
  });
  uploader.part("pause").addEventListener("click", () => uploader.pause());
  uploader.part("resume").addEventListener("click", () => uploader.send());
  uploader.part("cancel").addEventListener("click", () => uploader.cancel());
}

function start(element) {
  const uploader = mount(element);
  const leaving = (event) => ["hashing", "sending"].includes(element.dataset.state) && event.preventDefault();
  addEventListener("beforeunload", leaving);
  uploader.offer();
  return () => {
    removeEventListener("beforeunload", leaving);
    uploader.tus?.pause();
  };
}

bind("[data-upload]", start);
