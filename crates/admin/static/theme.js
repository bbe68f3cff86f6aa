// Runs before the page is drawn, so that a chosen theme never flashes into the other one.
document.documentElement.dataset.js = "";
try {
  const theme = localStorage.getItem("postbox-theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // Storage may be switched off; the system's choice holds.
}
