// The overview, live: one stream feeds the figures, the charts and the tables.
import { Chart } from "./chart.js";
import { events, number, perSecond, span } from "./format.js";

const KEPT = 901;
const pick = (selector) => document.querySelector(selector);
const live = pick("#live");
const rate = new Chart(pick("#chart-rate"), {
  label: "Events a second",
  nothing: "Nothing was published in this window",
  series: [
    { key: "sent", name: "Sent", tone: "accent", area: true },
    { key: "retried", name: "Retried", tone: "warn" },
    { key: "dead", name: "Dead", tone: "bad" },
  ],
});
const backlog = new Chart(pick("#chart-backlog"), {
  label: "Events pending",
  nothing: "Nothing waits",
  series: [{ key: "pending", name: "Pending", tone: "accent", area: true }],
});

let beats = [];
let chosen = null;
let lanesSeen = "";
let sinksSeen = "";

/** Adds beats by second, and fills silent seconds, so that time runs evenly. */
function merge(newer) {
  const known = new Map([...beats, ...newer].map((beat) => [beat.second, beat]));
  const seconds = [...known.keys()].sort((a, b) => a - b);
  const last = seconds.at(-1);
  const filled = [];
  for (let second = Math.max(seconds[0], last - KEPT + 1); second <= last; second += 1) {
    const pending = filled.at(-1)?.pending ?? 0;
    filled.push(known.get(second) ?? { second, sent: 0, retried: 0, dead: 0, pending });
  }
  beats = filled;
}

function write(name, text) {
  for (const node of document.querySelectorAll(`[data-live="${name}"]`)) {
    if (node.textContent !== text) node.textContent = text;
  }
}

function figures(outboxes) {
  const known = outboxes.flatMap((outbox) => outbox.counts ?? []);
  const sum = (key) => known.reduce((total, counts) => total + counts[key], 0);
  const exact = known.every((counts) => counts.exact);
  const late = known.flatMap((counts) => counts.oldest_due_ms ?? []);
  const recent = beats.slice(-10);
  const sent = recent.reduce((total, beat) => total + beat.sent, 0);
  write("rate", perSecond(sent, recent.length));
  write("over", recent.length ? `sent, mean of ${recent.length} s` : "sent, being measured");
  for (const about of document.querySelectorAll(".cards [data-about]")) {
    about.hidden = exact || !sum(about.dataset.about);
  }
  for (const key of ["pending", "new", "dispatching", "retry", "sent", "dead"]) {
    write(key, number(sum(key)));
  }
  write("oldest", late.length ? span(Math.max(...late)) : "–");
  if (known.length === outboxes.length) alarm(sum("dead"));
  if (sum("committed")) pick("#first-steps")?.remove();
}

function alarm(dead) {
  const badge = pick("#dead-badge");
  const before = badge.textContent.trim();
  badge.hidden = !dead;
  badge.textContent = number(dead);
  pick("#card-dead").classList.toggle("alarm", dead > 0);
  if (dead && before !== badge.textContent) say(`Dead: ${events(dead)}`);
}

function tables(outboxes) {
  for (const { name, counts } of outboxes) {
    const row = pick(`#outboxes tr[data-outbox="${CSS.escape(name)}"]`);
    if (!row || Boolean(counts) !== Boolean(row.querySelector("[data-cell]"))) {
      // An outbox that went or came back looks different: the server draws the page anew.
      if (performance.now() > 5000) location.reload();
      continue;
    }
    for (const about of row.querySelectorAll("[data-about]")) {
      about.hidden = counts.exact || !counts[about.dataset.about];
    }
    for (const cell of row.querySelectorAll("[data-cell]")) {
      const key = cell.dataset.cell;
      const due = counts.oldest_due_ms;
      const text = key === "oldest" ? (due === null ? "–" : span(due)) : number(counts[key]);
      if (cell.textContent !== text) cell.textContent = text;
      if (key === "dead") cell.classList.toggle("bad-text", counts.dead > 0);
    }
  }
}

function lanes(all) {
  const seen = JSON.stringify(all);
  if (seen === lanesSeen) return;
  const first = lanesSeen === "";
  lanesSeen = seen;
  pick("#lanes").hidden = !all.length;
  pick("#no-lanes").hidden = all.length > 0;
  pick("#lanes tbody").replaceChildren(...all.map(laneRow));
  const off = all.filter((lane) => !["running", "standby"].includes(lane.state));
  if (!first) say(off.length ? `Lanes that do not run: ${off.length}` : "All lanes run");
}

function laneRow({ outbox, sink, state, cause }) {
  const row = document.createElement("tr");
  row.dataset.lane = "";
  const cell = (label, ...content) => {
    const td = row.insertCell();
    td.dataset.label = label;
    td.append(...content);
  };
  const pill = document.createElement("span");
  const tones = { running: "good", standby: "calm", stopped: "calm", broken: "bad" };
  pill.className = `pill ${tones[state] ?? "warn"}`;
  pill.textContent = state;
  cell("Outbox", outbox);
  cell("Sink", sink);
  cell("State", pill);
  cell("Cause", ...(cause ? why(cause) : []));
  return row;
}

function sinks(all) {
  const seen = JSON.stringify(all);
  if (seen === sinksSeen) return;
  sinksSeen = seen;
  pick("#sinks").hidden = !all.length;
  pick("#sinks tbody").replaceChildren(...all.map(sinkRow));
}

function sinkRow({ sink, durability, levels, findings, cause }) {
  const row = document.createElement("tr");
  row.dataset.sink = "";
  const cell = (label, ...content) => {
    const td = row.insertCell();
    td.dataset.label = label;
    td.append(...content);
    return td;
  };
  const figure = (label, gauge, bad) => {
    const values = levels.filter((level) => level.gauge === gauge).map((level) => level.value);
    const total = gauge === "disk" ? Math.max(...values) : values.reduce((a, b) => a + b, 0);
    const text = gauge === "disk" ? `${Math.round(total * 100)} %` : number(Math.max(total, 0));
    const td = cell(label, values.length ? text : "–");
    td.className = values.length && total > bad ? "num bad-text" : "num";
  };
  cell("Sink", sink);
  cell("Durability", durability ?? "unknown");
  figure("Lag", "lag", Infinity);
  figure("Retry", "retry", Infinity);
  figure("Dead there", "dead", 0);
  figure("Disk", "disk", 0.8);
  cell("Cause", ...(cause ? why(cause) : []), ...found(findings));
  return row;
}

function found(findings) {
  const most = Number(pick("#sinks table").dataset.shown);
  const line = (...content) => {
    const p = document.createElement("p");
    p.append(...content);
    return p;
  };
  const lines = findings.slice(0, most).map(({ grade, what, detail }) => {
    const pill = document.createElement("span");
    pill.className = `pill ${grade}`;
    pill.textContent = what;
    const text = document.createElement("span");
    text.className = "detail";
    text.textContent = detail;
    const p = line(pill, " ", text);
    p.dataset.finding = "";
    return p;
  });
  const more = findings.length - most;
  if (more > 0) {
    const code = document.createElement("code");
    code.textContent = "postbox doctor";
    const p = line(`and ${number(more)} more: `, code);
    p.className = "detail";
    lines.push(p);
  }
  return lines;
}

function why({ code, detail }) {
  const link = document.createElement("a");
  link.href = `/explain/${encodeURIComponent(code)}`;
  link.textContent = code;
  const text = document.createElement("span");
  text.className = "detail";
  text.textContent = detail;
  return [link, " ", text];
}

function say(text) {
  pick("#announce").textContent = text;
}

function state(name, text) {
  if (live.dataset.state === name) return;
  live.dataset.state = name;
  live.textContent = text;
}

/** Draws the window that was chosen; until one is, a minute while there is no more to show. */
function redraw() {
  const shown = chosen ?? (beats.length <= 60 ? 60 : 300);
  for (const button of document.querySelectorAll("[data-window]")) {
    button.setAttribute("aria-pressed", String(Number(button.dataset.window) === shown));
  }
  rate.show(beats, shown);
  backlog.show(beats, shown);
}

let stream = null;

function watch() {
  stream = new EventSource("/live");
  stream.addEventListener("tick", (event) => {
    const tick = JSON.parse(event.data);
    state("on", "Live");
    if (tick.beats.length) merge(tick.beats);
    redraw();
    figures(tick.outboxes);
    lanes(tick.lanes);
    sinks(tick.sinks);
    tables(tick.outboxes);
  });
  stream.addEventListener("error", () => {
    state("off", "Not connected, trying again");
    // The browser gives up after an HTTP error; this does not.
    if (stream.readyState !== EventSource.CLOSED) return;
    setTimeout(() => document.hidden || watch(), 3000);
  });
}

// A hidden tab lets its connection go: browsers allow only a few to one host.
document.addEventListener("visibilitychange", () => {
  stream?.close();
  if (!document.hidden) watch();
});

for (const button of document.querySelectorAll("[data-window]")) {
  button.addEventListener("click", () => {
    chosen = Number(button.dataset.window);
    redraw();
  });
}

redraw();
watch();
