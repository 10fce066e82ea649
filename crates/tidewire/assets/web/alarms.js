// Alarms of plant tags, by quality and by the limits that this browser keeps.

import { memory } from "./dom.js";
import * as format from "./format.js";

// OPC quality words.
const GOOD = 192;
const UNCERTAIN = 64;

/** The limits that this browser keeps for a tag. */
export const limits = {
  of: (name) => memory.get("limits", {})[name] ?? {},
  set(name, wish) {
    const all = memory.get("limits", {});
    if (wish.low === undefined && wish.high === undefined) delete all[name];
    else all[name] = wish;
    memory.set("limits", all);
    limits.kept = all;
  },
  kept: null,
};

/** The alarm of a tag: rank (3 bad, 2 beyond a limit, 1 uncertain, 0 none), a sign and a text. */
export function alarm(name, fields) {
  const quality = Number(fields.quality);
  if (quality < UNCERTAIN) return { rank: 3, sign: "✕", text: fields.quality_text ?? "bad" };
  limits.kept ??= memory.get("limits", {});
  const { low, high } = limits.kept[name] ?? {};
  const value = Number(fields.value);
  if (format.isNumber(fields.value) && high !== undefined && value > high)
    return { rank: 2, sign: "▲", text: `above ${high}` };
  if (format.isNumber(fields.value) && low !== undefined && value < low)
    return { rank: 2, sign: "▼", text: `below ${low}` };
  if (quality < GOOD) return { rank: 1, sign: "?", text: fields.quality_text ?? "uncertain" };
  return { rank: 0, sign: "✓", text: fields.quality_text ?? "good" };
}

/** The class of each rank in the stylesheet. */
export const CLASSES = ["good", "uncertain", "limit", "bad"];
