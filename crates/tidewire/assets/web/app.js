// The page: its panels, the state of the connection, the login, the theme and the keyboard.

import { connect } from "./tidewire.js";
import { fill, h, memory, write } from "./dom.js";
import * as format from "./format.js";
import { themeChanged } from "./chart.js";
import { Pulse } from "./pulse.js";
import { showHelp } from "./help.js";
import { Login } from "./login.js";
import { TopicsPanel } from "./topics.js";
import { PlantPanel } from "./plant.js";
import { KeysPanel } from "./keys.js";
import { HubPanel } from "./hub.js";

const PANELS = [
  ["topics", "Topics", TopicsPanel],
  ["plant", "Plant", PlantPanel],
  ["keys", "Keys", KeysPanel],
  ["hub", "Hub", HubPanel],
];

const hub = connect(undefined, { name: "console" });
const pulse = new Pulse(hub);
const made = new Map();
const main = document.querySelector("main");
const banner = document.querySelector("#banner");
let current = null;
let countdown = null;

const login = new Login(hub, main);
const tabs = PANELS.map(([name, title], index) =>
  h("a.tab", { href: `#${name}`, title: `${title} (${index + 1})`, "data-panel": name }, title),
);
document.querySelector(".tabs").append(...tabs);

// ---- header

const dot = h("span.dot", { "aria-hidden": "true" });
const stateText = h("span.state-text");
const figures = ["rate", "latency", "clients"].map((name) => h(`span.figure.${name}`));
document.querySelector(".pulse").append(...figures);
const userButton = h("button.plain.user", { type: "button", hidden: true, onclick: () => hub.signOut() });
const themeButton = h("button.plain.icon", { type: "button", onclick: switchTheme });
const helpButton = h(
  "button.plain.icon",
  { type: "button", title: "Keyboard (?)", "aria-label": "Keyboard", onclick: showHelp },
  "?",
);
document.querySelector(".tools").append(h("span.state", dot, stateText), userButton, themeButton, helpButton);

function labelTheme() {
  const isDark = document.documentElement.dataset.theme === "dark";
  themeButton.textContent = isDark ? "☀" : "☾";
  themeButton.title = isDark ? "Light theme (t)" : "Dark theme (t)";
  themeButton.setAttribute("aria-label", isDark ? "Light theme" : "Dark theme");
}

function switchTheme() {
  const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  memory.set("theme", next);
  labelTheme();
  themeChanged();
}

pulse.on((now) => {
  const { info, rates } = now;
  fill(figures[0], h("b", format.short(rates.feed_applied_messages ?? 0)), " msg/s");
  fill(
    figures[1],
    "p50 ",
    h("b", format.latency(info.feed_latency_p50_ns)),
    " p99 ",
    h("b", format.latency(info.feed_latency_p99_ns)),
  );
  figures[1].title = "From the source's time to the last value in the hub, since the hub started";
  fill(
    figures[2],
    h("b", format.count(info.connected_clients)),
    Number(info.connected_clients) === 1 ? " client" : " clients",
  );
});

// ---- connection

hub.on("state", showState);

function showState(state) {
  clearInterval(countdown);
  document.body.dataset.state = state.name;
  const words = {
    connecting: "connecting",
    open: "live",
    login: "login needed",
    waiting: "reconnecting",
    ended: "ended",
  };
  write(stateText, words[state.name]);
  if (state.name === "open") opened();
  if (state.name === "login") login.show(state.reason);
  if (state.name === "waiting") {
    const text = h("span");
    const tell = () => {
      const seconds = Math.max(0, (state.at - Date.now()) / 1000);
      write(
        text,
        `The hub is not reachable: ${state.reason}. Values are as of the last connection. Trying again in ${seconds.toFixed(1)} s.`,
      );
    };
    tell();
    countdown = setInterval(tell, 100);
    fill(
      banner,
      h("b", "▲ Disconnected"),
      " ",
      text,
      " ",
      h("button", { type: "button", onclick: () => hub.reconnect() }, "Try now"),
    );
    banner.hidden = false;
  } else if (state.name === "ended") {
    fill(banner, h("b", "▲ Ended"), ` ${state.reason ?? ""}`);
    banner.hidden = false;
  } else if (state.name === "open") banner.hidden = true;
}

// The stream lets a page connect before a user has logged in: ask before the first panel is shown.
async function opened() {
  const connection = hub.hello;
  const session = await fetch("/api/session")
    .then((answer) => answer.json())
    .catch(() => ({}));
  if (hub.hello !== connection || hub.state.name !== "open") return;
  const user = session.user ?? connection.user;
  userButton.hidden = !user || user === "default" || session.needs_login;
  userButton.textContent = `${user} · log out`;
  if (session.needs_login) {
    login.show("");
    return;
  }
  // What another user saw, or what was refused before the login, is not shown again.
  if (login.hide()) {
    current?.hide();
    made.clear();
    current = null;
  }
  if (current === null) route();
}

// ---- panels

function route() {
  const [name, ...rest] = location.hash.slice(1).split("/");
  const found = PANELS.find(([panel]) => panel === name) ?? PANELS[0];
  const argument = rest.length > 0 ? decoded(rest.join("/")) : null;
  if (login.isShown) return;
  if (!made.has(found[0])) made.set(found[0], new found[2](hub, pulse));
  const panel = made.get(found[0]);
  for (const tab of tabs) {
    if (tab.dataset.panel === found[0]) tab.setAttribute("aria-current", "page");
    else tab.removeAttribute("aria-current");
  }
  if (current !== panel || !panel.element.isConnected) {
    if (current !== panel) current?.hide();
    current = panel;
    fill(main, panel.element);
    document.title = `${found[1]} · Tidewire`;
  }
  panel.show(argument);
}

/** An address with a cut escape is taken as it is. */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

window.addEventListener("hashchange", route);

// ---- keyboard

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const isTyping = event.target.matches("input, textarea, select");
  if (event.key === "Escape") {
    if (isTyping) event.target.blur();
    else current?.escape?.();
    return;
  }
  if (isTyping) return;
  const panel = PANELS[Number(event.key) - 1];
  if (panel) location.hash = panel[0];
  else if (event.key === "/") focusFilter(event);
  else if (event.key === "t") switchTheme();
  else if (event.key === "?") showHelp();
});

function focusFilter(event) {
  const input = main.querySelector("input[type=search]");
  if (input === null) return;
  event.preventDefault();
  input.focus();
  input.select();
}

labelTheme();
showState(hub.state);
