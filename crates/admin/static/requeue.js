// Requeueing with a dialog: a dry run says what would happen before anything does.
import { events } from "./format.js";

const form = document.querySelector("form.requeue");
const ask = document.querySelector("#ask");
const [text, limitRow, limit, yes, no] = ["text", "limit-row", "limit", "yes", "no"].map((name) =>
  document.querySelector(`#ask-${name}`),
);
const picks = () => [...document.querySelectorAll('input[name="pick"]')];
const picked = () => picks().filter((box) => box.type === "hidden" || box.checked);

async function call(body) {
  const answer = await fetch("/api/v1/requeue", {
    method: "POST",
    headers: { "content-type": "application/json", "x-postbox": "1" },
    body: JSON.stringify(body),
  });
  const said = await answer.json();
  if (!answer.ok) throw new Error(`${said.code}: ${said.detail}`);
  return said;
}

/** Reads the form: the picked events, or everything that its filter finds. */
function order(all) {
  const data = new FormData(form);
  const body = { outbox: data.get("outbox"), ids: [], dry_run: true };
  if (!all) return { ...body, ids: picked().map((box) => box.value) };
  const fields = ["id", "key", "type", "topic", "code"].filter((name) => data.get(name));
  const filter = Object.fromEntries(fields.map((name) => [name, data.get(name)]));
  return { ...body, filter, limit: Number(limit.value) };
}

function would({ requeued, skipped, more, at_least: atLeast }) {
  const some = `${atLeast ? "At least " : ""}${events(requeued.length)} will be due again.`;
  const parts = [requeued.length ? some : "Nothing to requeue."];
  if (skipped.length) parts.push(`${events(skipped.length)} not dead any more: skipped.`);
  if (more) parts.push("The filter finds more than that.");
  return parts.join(" ");
}

function did({ requeued, skipped, more }) {
  const some = requeued.length > 0;
  const parts = [some ? `${events(requeued.length)} requeued.` : "Nothing was requeued."];
  if (skipped.length) parts.push(`${events(skipped.length)} skipped: not dead any more.`);
  if (more) parts.push("The filter still finds more dead events.");
  return parts.join(" ");
}

let body = null;
let asked = 0;

/** Asks the server what would happen; only the answer to the newest question counts. */
async function tryOut(all) {
  asked += 1;
  const mine = asked;
  yes.disabled = true;
  text.textContent = "Counting …";
  body = order(all);
  try {
    const said = await call(body);
    if (mine !== asked) return;
    text.textContent = would(said);
    const count = said.requeued.length;
    yes.disabled = !count;
    yes.textContent = !count ? "Requeue" : `Requeue ${events(count)}`;
    if (said.at_least) yes.textContent = `Requeue up to ${events(body.limit)}`;
  } catch (error) {
    if (mine === asked) text.textContent = error.message;
  }
}

function flash(tone, words) {
  sessionStorage.setItem("postbox-flash", JSON.stringify({ tone, text: words }));
  location.reload();
}

form?.addEventListener("submit", (event) => {
  event.preventDefault();
  const all = event.submitter?.name === "all";
  if (!all && !picked().length) return;
  limitRow.hidden = !all;
  ask.showModal();
  tryOut(all);
});

limit.addEventListener("input", () => limit.checkValidity() && tryOut(true));
no.addEventListener("click", () => ask.close());
yes.addEventListener("click", async () => {
  yes.disabled = true;
  try {
    flash("good", did(await call({ ...body, dry_run: false })));
  } catch (error) {
    text.textContent = error.message;
  }
});

const every = document.querySelector("#pick-all");
const button = document.querySelector("#requeue-picked");

function count() {
  const number = picked().length;
  button.disabled = !number;
  every.checked = number > 0 && number === picks().length;
  every.indeterminate = number > 0 && !every.checked;
  const words = number ? `${events(number)} picked` : "Pick events, or take all that match.";
  document.querySelector("#picked").textContent = words;
}

every?.addEventListener("change", () => {
  for (const box of picks()) box.checked = every.checked;
  count();
});
if (every) {
  form.addEventListener("change", count);
  count();
}
