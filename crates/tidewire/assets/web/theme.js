// Runs before the first paint: the theme this browser chose, or the system's.
(() => {
  const system = matchMedia("(prefers-color-scheme: light)").matches ? "light" : "dark";
  let chosen = null;
  try {
    chosen = JSON.parse(localStorage.getItem("tidewire.theme"));
  } catch {
    /* storage is off */
  }
  document.documentElement.dataset.theme = chosen === "light" || chosen === "dark" ? chosen : system;
})();
