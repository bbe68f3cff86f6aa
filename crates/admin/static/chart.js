// A live chart as SVG: one line a series over the newest seconds, with axes, gridlines and a
// read-out that follows the pointer or the arrow keys.
import { number } from "./format.js";

const SVG = "http://www.w3.org/2000/svg";
const PAD = { top: 8, right: 8, bottom: 22, left: 44 };
const calm = matchMedia("(prefers-reduced-motion: reduce)");

function draw(name, attributes = {}, text) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

/** Returns the next round number whose quarters are whole. */
function ceiling(value) {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, value)));
  const rounds = [1, 2, 4, 6, 8, 10, 20].map((step) => step * power);
  return rounds.find((round) => round >= value && round % 4 === 0);
}

function short(value) {
  if (value >= 1e6) return `${+(value / 1e6).toFixed(2)} M`;
  return value >= 1e4 ? `${+(value / 1e3).toFixed(1)} k` : number(value);
}

const clock = (second) => new Date(second * 1000).toLocaleTimeString([], { hour12: false });

export class Chart {
  /** Draws into `host`; each series is `{ key, name, tone, area }` of a beat. */
  constructor(host, { series, label, nothing }) {
    Object.assign(this, { host, series, label, beats: [], window: 60, at: null });
    this.legend = host.appendChild(document.createElement("div"));
    this.legend.className = "legend";
    this.svg = host.appendChild(draw("svg", { role: "img", tabindex: 0, "aria-label": label }));
    this.nothing = host.appendChild(document.createElement("p"));
    this.nothing.className = "nothing";
    this.quiet = nothing;
    this.readout = host.appendChild(document.createElement("div"));
    this.readout.className = "readout";
    this.readout.hidden = true;
    this.values = series.map((one) => this.#entry(one));
    this.clip = `clip-${host.id}`;
    this.svg.addEventListener("pointermove", (event) => this.#point(event));
    this.svg.addEventListener("pointerleave", () => this.#look(null));
    this.svg.addEventListener("blur", () => this.#look(null));
    this.svg.addEventListener("keydown", (event) => this.#key(event));
    new ResizeObserver(() => this.#render(false)).observe(host);
  }

  /** Shows the newest beats: one a second, oldest first, without gaps. */
  show(beats, window) {
    const moved = this.beats.length && beats.at(-1)?.second === this.beats.at(-1).second + 1;
    const slides = moved && window === this.window && !calm.matches && this.at === null;
    Object.assign(this, { beats, window });
    this.#render(slides);
  }

  #entry(one) {
    const entry = this.legend.appendChild(document.createElement("span"));
    const swatch = entry.appendChild(draw("svg", { viewBox: "0 0 18 8", "aria-hidden": true }));
    swatch.append(draw("line", { class: `line tone-${one.tone}`, x1: 1, x2: 17, y1: 4, y2: 4 }));
    entry.append(one.name, " ");
    return entry.appendChild(document.createElement("b"));
  }

  #render(slides) {
    const { clientWidth: width } = this.host;
    const height = this.svg.clientHeight;
    if (!width || !height) return;
    const shown = this.beats.slice(-this.window - 1);
    const last = shown.at(-1)?.second ?? Math.floor(Date.now() / 1000);
    const top = ceiling(Math.max(0, ...shown.flatMap((b) => this.series.map((s) => b[s.key]))));
    this.x = (second) =>
      width - PAD.right - ((last - second) / this.window) * (width - PAD.left - PAD.right);
    this.y = (value) => height - PAD.bottom - (value / top) * (height - PAD.top - PAD.bottom);
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const lines = draw("g");
    for (const one of this.series) lines.append(...this.#line(one, shown));
    const frame = draw("g", { "clip-path": `url(#${this.clip})` });
    frame.append(lines);
    this.marks = draw("g");
    this.svg.replaceChildren(this.#clip(width, height), this.#grid(width, height, top, last));
    this.svg.append(frame, this.marks);
    if (slides) this.#slide(lines, this.x(last) - this.x(last - 1));
    this.#tell(shown);
    this.#look(this.at);
  }

  #clip(width, height) {
    const clip = draw("clipPath", { id: this.clip });
    const inner = { width: width - PAD.left - PAD.right + 2, height: height - PAD.bottom + 2 };
    clip.append(draw("rect", { x: PAD.left, y: 0, ...inner }));
    return clip;
  }

  #grid(width, height, top, last) {
    const grid = draw("g", { "aria-hidden": true });
    for (let step = 0; step <= 4; step += 1) {
      const y = Math.round(this.y((top * step) / 4)) + 0.5;
      const line = { class: "grid", x1: PAD.left, x2: width - PAD.right, y1: y, y2: y };
      grid.append(draw("line", line));
      const place = { class: "axis", x: PAD.left - 8, y: y + 3.5, "text-anchor": "end" };
      grid.append(draw("text", place, short((top * step) / 4)));
    }
    const steps = width < 420 ? { 60: 20, 300: 120, 900: 300 } : { 60: 15, 300: 60, 900: 180 };
    const step = steps[this.window];
    for (let back = 0; back <= this.window; back += step) {
      const anchor = back === 0 ? "end" : back === this.window ? "start" : "middle";
      const place = { class: "axis", x: this.x(last - back), y: height - 5, "text-anchor": anchor };
      const name = back === 0 ? "now" : back % 60 ? `−${back} s` : `−${back / 60} min`;
      grid.append(draw("text", place, name));
    }
    return grid;
  }

  #line({ key, tone, area }, shown) {
    if (shown.length < 2 || (!area && shown.every((beat) => !beat[key]))) return [];
    const path = this.#path(shown, key, area);
    const line = draw("path", { class: `line tone-${tone}`, d: path });
    if (!area) return [line];
    const [from, to] = [this.x(shown[0].second), this.x(shown.at(-1).second)];
    const fill = `${path}L${to} ${this.y(0)}L${from} ${this.y(0)}Z`;
    return [draw("path", { class: `area tone-${tone}`, d: fill }), line];
  }

  /** Joins the seconds; a line without an area leaves out the stretches where nothing happened. */
  #path(shown, key, area) {
    let pen = "M";
    let path = "";
    shown.forEach((beat, place) => {
      const quiet = ![shown[place - 1], beat, shown[place + 1]].some((near) => near?.[key]);
      if (area || !quiet) {
        path += `${pen}${this.x(beat.second).toFixed(1)} ${this.y(beat[key]).toFixed(1)}`;
      }
      pen = area || !quiet ? "L" : "M";
    });
    return path;
  }

  #slide(lines, width) {
    const way = [{ transform: `translateX(${width}px)` }, { transform: "none" }];
    lines.animate(way, { duration: 950, easing: "linear" });
  }

  #tell(shown) {
    const newest = shown.at(-1);
    this.series.forEach((one, place) => {
      this.values[place].textContent = newest ? number(newest[one.key]) : "–";
    });
    this.nothing.textContent = shown.length < 2 ? "Gathering the first seconds …" : this.quiet;
    this.nothing.hidden = shown.some((beat) => this.series.some((one) => beat[one.key]));
    const now = this.series.map((one, i) => `${one.name} ${this.values[i].textContent}`);
    this.svg.setAttribute("aria-label", `${this.label}. Now: ${now.join(", ")}.`);
  }

  #point(event) {
    const box = this.svg.getBoundingClientRect();
    const part = (box.right - PAD.right - event.clientX) / (box.width - PAD.left - PAD.right);
    const last = this.beats.at(-1)?.second;
    if (last) this.#look(Math.round(last - part * this.window));
  }

  #key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === "Escape") this.#look(null);
    if (!step || !this.beats.length) return;
    event.preventDefault();
    const last = this.beats.at(-1).second;
    this.#look(Math.min(last, (this.at ?? last + 1) + step * (event.shiftKey ? 10 : 1)));
  }

  /** Shows the figures of one second, or none. */
  #look(second) {
    const beat = this.beats.find((one) => one.second === second);
    this.at = beat ? second : null;
    this.marks?.replaceChildren();
    this.readout.hidden = !beat;
    if (!beat || !this.x) return;
    const x = this.x(second);
    this.marks.append(draw("line", { class: "cross", x1: x, x2: x, y1: PAD.top, y2: this.y(0) }));
    const rows = [[clock(second), ""]];
    for (const one of this.series) {
      const place = { cx: x, cy: this.y(beat[one.key]), r: 3.5 };
      this.marks.append(draw("circle", { class: `dot tone-${one.tone}`, ...place }));
      rows.push([one.name, number(beat[one.key])]);
    }
    this.readout.replaceChildren(...rows.map(([name, value]) => row(name, value)));
    const left = x + 14 + this.readout.offsetWidth > this.host.clientWidth;
    const shift = left ? x - 14 - this.readout.offsetWidth : x + 14;
    this.readout.style.transform = `translateX(${Math.max(0, shift)}px)`;
  }
}

function row(name, value) {
  const line = document.createElement("p");
  const figure = document.createElement("b");
  figure.textContent = value;
  line.append(name, figure);
  return line;
}
