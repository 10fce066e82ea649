// Small helpers to build the page. Text only ever becomes text: there is no markup from data.

/** An element: `h("td.number", {title}, "text", child)`. Properties are set, not attributes, but for aria- and role. */
export function h(selector, ...rest) {
  const [tag, ...classes] = selector.split(".");
  const element = document.createElement(tag || "div");
  if (classes.length > 0) element.className = classes.join(" ");
  for (const part of rest) put(element, part);
  return element;
}

function put(element, part) {
  if (part === null || part === undefined || part === false) return;
  if (Array.isArray(part)) part.forEach((one) => put(element, one));
  else if (part instanceof Node) element.append(part);
  else if (typeof part === "object") set(element, part);
  else element.append(String(part));
}

function set(element, properties) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name.startsWith("aria-") || name.startsWith("data-") || PLAIN.has(name)) {
      element.setAttribute(name, value);
    } else element[name] = value;
  }
}

const PLAIN = new Set([
  "role",
  "for",
  "list",
  "colspan",
  "autocomplete",
  "inputmode",
  "spellcheck",
  "maxlength",
]);

const SVG = "http://www.w3.org/2000/svg";

/** An SVG element with these attributes. */
export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** Puts these in the place of everything in the element. */
export function fill(element, ...children) {
  element.replaceChildren();
  for (const child of children) put(element, child);
  return element;
}

/** Sets the text only where it differs, so that nothing is laid out again for nothing. */
export function write(element, text) {
  if (element.firstChild === null || element.firstChild.nodeValue !== text) element.textContent = text;
}

/** One call per frame at most, of the newest request. */
export function perFrame(task) {
  let isWaiting = false;
  return () => {
    if (isWaiting) return;
    isWaiting = true;
    requestAnimationFrame(() => {
      isWaiting = false;
      task();
    });
  };
}

/** Calls `task` when nothing has been typed for a moment. */
export function later(task, milliseconds = 150) {
  let timer;
  return (...values) => {
    clearTimeout(timer);
    timer = setTimeout(() => task(...values), milliseconds);
  };
}

/** Asks in a dialog; resolves to whether the answer was yes. */
export function confirm({ title, lines, yes, danger = false }) {
  return new Promise((resolve) => {
    const dialog = h("dialog.dialog", { "aria-labelledby": "dialog-title" });
    const done = (answer) => {
      dialog.close();
      dialog.remove();
      resolve(answer);
    };
    const agree = h(
      danger ? "button.danger" : "button.primary",
      { type: "button", onclick: () => done(true) },
      yes,
    );
    const cancel = h("button", { type: "button", onclick: () => done(false) }, "Cancel");
    dialog.append(
      h("h2", { id: "dialog-title" }, title),
      h(
        "dl.facts",
        lines.map(([name, value]) => [h("dt", name), h("dd", value)]),
      ),
      h("div.actions", cancel, agree),
    );
    dialog.addEventListener("cancel", (event) => {
      event.preventDefault();
      done(false);
    });
    document.body.append(dialog);
    dialog.showModal();
    // Enter, pressed twice in a hurry, must not do what cannot be undone.
    (danger ? cancel : agree).focus();
  });
}

/** A choice of a few, as buttons: `[[value, label], …]`. */
export function choice(label, options, chosen, changed) {
  const buttons = options.map(([value, text]) =>
    h(
      "button",
      {
        type: "button",
        "aria-pressed": String(value === chosen),
        "data-value": value,
        onclick: () => choose(value),
      },
      text,
    ),
  );
  const choose = (value) => {
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.value === value));
    changed(value);
  };
  const element = h("div.choice", { role: "group", "aria-label": label }, buttons);
  element.choose = choose;
  return element;
}

/** What this browser remembers for the page; a browser that may not store remembers nothing. */
export const memory = {
  get(name, otherwise) {
    try {
      return JSON.parse(localStorage.getItem(`tidewire.${name}`)) ?? otherwise;
    } catch {
      return otherwise;
    }
  },
  set(name, value) {
    try {
      localStorage.setItem(`tidewire.${name}`, JSON.stringify(value));
    } catch {
      /* storage is off or full: the setting holds for this page only */
    }
  },
};
