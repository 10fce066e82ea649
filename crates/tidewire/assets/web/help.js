// The keyboard, in a dialog.

import { h } from "./dom.js";

const KEYS = [
  ["1 2 3 4", "Topics, Plant, Keys, Hub"],
  ["/", "filter"],
  ["↑ ↓ PgUp PgDn Home End", "move in a table"],
  ["Enter", "open the chosen row"],
  ["Esc", "close what is open"],
  ["t", "dark or light"],
  ["?", "this help"],
];

export function showHelp() {
  const dialog = h("dialog.dialog", { "aria-labelledby": "help-title" });
  const close = () => {
    dialog.close();
    dialog.remove();
  };
  dialog.append(
    h("h2", { id: "help-title" }, "Keyboard"),
    h(
      "dl.facts",
      KEYS.map(([keys, text]) => [h("dt", h("kbd", keys)), h("dd", text)]),
    ),
    h("div.actions", h("button.primary", { type: "button", onclick: close }, "Close")),
  );
  dialog.addEventListener("cancel", close);
  document.body.append(dialog);
  dialog.showModal();
}
