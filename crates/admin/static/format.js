// Figures and moments as people read them; the same rules as on the server.

/** Writes a number with its thousands apart. */
export const number = (value) => Math.round(value).toLocaleString("en-US");

/** Writes how many a second: with one decimal where that says more. */
export function perSecond(count, seconds) {
  if (!seconds) return "–";
  const tenths = Math.floor((count * 10) / seconds);
  return tenths < 100 ? String(tenths / 10) : number(Math.floor(tenths / 10));
}

/** Writes a span of milliseconds with its two largest units at the most. */
export function span(millis) {
  const seconds = Math.floor(millis / 1000);
  if (seconds < 1) return `${Math.floor(millis)} ms`;
  if (seconds < 10) return `${(Math.floor(millis / 100) / 10).toFixed(1)} s`;
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return two(seconds / 60, "min", seconds % 60, "s");
  if (seconds < 86400) return two(seconds / 3600, "h", (seconds / 60) % 60, "min");
  return two(seconds / 86400, "d", (seconds / 3600) % 24, "h");
}

function two(large, unit, small, smallUnit) {
  const rest = Math.floor(small);
  return `${Math.floor(large)} ${unit}${rest ? ` ${rest} ${smallUnit}` : ""}`;
}

/** Writes a moment as seen from another, with its largest unit. */
export function ago(moment, now) {
  const gone = now - moment;
  if (gone < 0) return `in ${rough(-gone)}`;
  return gone < 2000 ? "just now" : `${rough(gone)} ago`;
}

function rough(millis) {
  const seconds = Math.floor(millis / 1000);
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  return seconds < 86400 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86400)} d`;
}

/** Names a number of events. */
export const events = (count) => `${number(count)} ${count === 1 ? "event" : "events"}`;
