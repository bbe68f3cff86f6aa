// Shows a payload once it is asked for: as text, whatever it holds.

const button = document.querySelector("#payload-show");
const text = document.querySelector("#payload-text");
const masked = document.querySelector("#payload-masked");
const DUMPED = 4096;

/** Indents JSON without reading its numbers, so that long ones keep every digit. */
export function indent(json) {
  JSON.parse(json);
  let out = "";
  let depth = 0;
  const line = () => `\n${"  ".repeat(depth)}`;
  for (const [token] of json.matchAll(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/gs)) {
    if (token === "{" || token === "[") {
      depth += 1;
      out += token + line();
    } else if (token === "}" || token === "]") {
      depth -= 1;
      out = /[{[]\s*$/.test(out.slice(-2 * depth - 4)) ? out.trimEnd() : out + line();
      out += token;
    } else if (token === ",") out += token + line();
    else out += token === ":" ? ": " : token;
  }
  return out;
}

function dump(bytes) {
  const lines = [];
  for (let at = 0; at < Math.min(bytes.length, DUMPED); at += 16) {
    const row = [...bytes.slice(at, at + 16)];
    const hex = row.map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
    const plain = row.map((byte) => (byte > 31 && byte < 127 ? String.fromCharCode(byte) : "."));
    lines.push(`${at.toString(16).padStart(6, "0")}  ${hex.padEnd(47)}  ${plain.join("")}`);
  }
  if (bytes.length > DUMPED) lines.push(`… ${bytes.length - DUMPED} bytes more`);
  return lines.join("\n");
}

function pretty(json) {
  try {
    return indent(json);
  } catch {
    return json;
  }
}

async function load() {
  const answer = await fetch(button.dataset.href);
  if (!answer.ok) throw new Error(`the payload cannot be read (${answer.status})`);
  const binary = answer.headers.get("content-type") === "application/octet-stream";
  return binary ? dump(new Uint8Array(await answer.arrayBuffer())) : pretty(await answer.text());
}

button.addEventListener("click", async () => {
  if (text.hidden && !text.textContent) {
    button.disabled = true;
    try {
      text.textContent = (await load()) || "(empty)";
    } catch (error) {
      masked.textContent = error.message;
      return;
    } finally {
      button.disabled = false;
    }
  }
  text.hidden = !text.hidden;
  masked.hidden = !text.hidden;
  button.textContent = text.hidden ? "Show payload" : "Hide payload";
  button.setAttribute("aria-expanded", String(!text.hidden));
});
