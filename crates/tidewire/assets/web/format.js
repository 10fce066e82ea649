// How numbers, times and sizes are written.

const grouped = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const NONE = "–";

export const isNumber = (value) =>
  value !== null && value !== "" && value !== undefined && Number.isFinite(Number(value));

/** 1234567 → 1,234,567 */
export function count(value) {
  return isNumber(value) ? grouped.format(Number(value)) : NONE;
}

/** 1234567 → 1.23M */
export function short(value) {
  if (!isNumber(value)) return NONE;
  const number = Number(value);
  for (const [size, unit] of [
    [1e12, "T"],
    [1e9, "G"],
    [1e6, "M"],
    [1e4, "k"],
  ]) {
    if (Math.abs(number) >= size) {
      const by = unit === "k" ? 1e3 : size;
      return (
        (number / by)
          .toFixed(2)
          .slice(0, 5)
          .replace(/\.?0*$/, "") + unit
      );
    }
  }
  return Number.isInteger(number) || Math.abs(number) >= 100 ? grouped.format(number) : number.toFixed(1);
}

/** Prices keep the digits they have, but never fewer than two. */
export function price(value) {
  if (!isNumber(value)) return NONE;
  const text = String(value);
  const digits = text.includes(".") && !text.includes("e") ? text.length - text.indexOf(".") - 1 : 0;
  return Number(value).toLocaleString("en-US", {
    minimumFractionDigits: Math.max(2, digits),
    maximumFractionDigits: 9,
  });
}

/** A change in per cent, with its sign and its arrow. */
export function change(value) {
  if (!isNumber(value)) return NONE;
  const number = Number(value);
  const text = Math.abs(number).toFixed(2);
  if (Number(text) === 0) return "0.00 %";
  return number > 0 ? `▲ +${text} %` : `▼ −${text} %`;
}

/** 1, -1 or 0: the way of a change, as it is written. */
export function way(value) {
  return { "▲": 1, "▼": -1 }[change(value)[0]] ?? 0;
}

export function bytes(value) {
  if (!isNumber(value)) return NONE;
  let number = Number(value);
  for (const unit of ["B", "KB", "MB", "GB"]) {
    if (Math.abs(number) < 1024)
      return unit === "B" ? `${number} B` : `${number.toFixed(number < 10 ? 2 : 1)} ${unit}`;
    number /= 1024;
  }
  return `${number.toFixed(1)} TB`;
}

/** Nanoseconds since the UNIX epoch as a time of day, with the date if it is not today. */
export function time(nanoseconds) {
  const milliseconds = Number(nanoseconds) / 1e6;
  if (!isNumber(nanoseconds) || milliseconds <= 0) return NONE;
  return moment(milliseconds);
}

export function moment(milliseconds) {
  const date = new Date(milliseconds);
  const part = (number, digits = 2) => String(number).padStart(digits, "0");
  const clock = `${part(date.getHours())}:${part(date.getMinutes())}:${part(date.getSeconds())}.${part(date.getMilliseconds(), 3)}`;
  if (date.toDateString() === new Date().toDateString()) return clock;
  return `${date.getFullYear()}-${part(date.getMonth() + 1)}-${part(date.getDate())} ${clock.slice(0, 8)}`;
}

/** Seconds as 3 d 4 h, 2 h 5 m, 7 m 8 s, 9 s. */
export function duration(seconds) {
  if (!isNumber(seconds)) return NONE;
  const whole = Math.max(0, Math.floor(Number(seconds)));
  const [d, hours, m, s] = [
    Math.floor(whole / 86400),
    Math.floor(whole / 3600) % 24,
    Math.floor(whole / 60) % 60,
    whole % 60,
  ];
  if (d > 0) return `${d} d ${hours} h`;
  if (hours > 0) return `${hours} h ${m} m`;
  return m > 0 ? `${m} m ${s} s` : `${s} s`;
}

/** Time since a moment in nanoseconds. */
export function age(nanoseconds, now = Date.now()) {
  if (!isNumber(nanoseconds) || Number(nanoseconds) <= 0) return NONE;
  const seconds = (now - Number(nanoseconds) / 1e6) / 1000;
  if (seconds < 1) return "now";
  return seconds < 60 ? `${Math.floor(seconds)} s` : duration(seconds);
}

/** Nanoseconds of a latency, with three digits: 117 µs, 4.64 ms. */
export function latency(nanoseconds) {
  if (!isNumber(nanoseconds)) return NONE;
  const number = Number(nanoseconds);
  if (number < 1e3) return `${Math.round(number)} ns`;
  for (const [size, unit] of [
    [1e3, "µs"],
    [1e6, "ms"],
    [1e9, "s"],
  ]) {
    const inUnit = number / size;
    if (inUnit < 1e3 || unit === "s")
      return `${inUnit.toFixed(inUnit < 10 ? 2 : inUnit < 100 ? 1 : 0)} ${unit}`;
  }
  return NONE;
}

/** Any value in one line. */
export function line(value) {
  if (value === null || value === undefined) return NONE;
  return typeof value === "string" ? value : JSON.stringify(value);
}

const TIMES = new Set(["ts", "recv_ts", "start"]);
const PRICES = new Set(["bid", "ask", "last", "open", "high", "low", "close", "prev_close", "vwap"]);
const COUNTS = new Set([
  "volume",
  "seq",
  "trades",
  "bid_size",
  "ask_size",
  "last_size",
  "bid_orders",
  "ask_orders",
  "update",
  "late",
]);

/** A field of a topic, written as its name asks for. */
export function field(name, value) {
  if (value === "" || value === null || value === undefined) return NONE;
  if (TIMES.has(name)) return time(value);
  if (COUNTS.has(name)) return count(value);
  if (PRICES.has(name)) return price(value);
  if (name === "change_pct") return change(value);
  if (name === "stale") return STALE[value] ?? String(value);
  return line(value);
}

export const STALE = { 0: "current", 1: "stale", 2: "in doubt" };

export const LINE = NONE;
