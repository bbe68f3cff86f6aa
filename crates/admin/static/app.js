// What every page has: the theme switch, copy buttons, times that stay true, what just happened.
import { ago } from "./format.js";

const root = document.documentElement;

document.querySelector("#theme").addEventListener("click", () => {
  const dark =
    root.dataset.theme === "dark" ||
    (!root.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
  root.dataset.theme = dark ? "light" : "dark";
  try {
    localStorage.setItem("postbox-theme", root.dataset.theme);
  } catch {
    // Without storage the choice lasts as long as the page.
  }
});

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  await navigator.clipboard.writeText(button.dataset.copy);
  button.dataset.done = "";
  setTimeout(() => delete button.dataset.done, 1200);
});

// A page that is not from this machine or over TLS has no clipboard.
if (!navigator.clipboard) document.querySelectorAll("[data-copy]").forEach((b) => b.remove());

function refresh() {
  const now = Date.now();
  for (const time of document.querySelectorAll("time[datetime]:not([data-fixed])")) {
    const text = ago(Date.parse(time.dateTime), now);
    if (time.textContent !== text) time.textContent = text;
  }
}
setInterval(() => document.hidden || refresh(), 5000);

const said = sessionStorage.getItem("postbox-flash");
if (said) {
  sessionStorage.removeItem("postbox-flash");
  const flash = document.querySelector("#flash");
  const { tone, text } = JSON.parse(said);
  flash.hidden = false;
  flash.dataset.tone = tone;
  const close = document.createElement("button");
  close.type = "button";
  close.className = "copy";
  close.setAttribute("aria-label", "Close");
  close.textContent = "×";
  close.addEventListener("click", () => (flash.hidden = true));
  const words = document.createElement("span");
  words.textContent = text;
  flash.replaceChildren(words, close);
}
