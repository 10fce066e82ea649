// The state of a topic, as a sign and a word.

/** What a row says beside its values: a sign, a word and an explanation. */
export function mark(fields) {
  if (fields === null) return null;
  if (Number(fields.stale) === 2)
    return ["?", "in doubt", "Messages of the source are missing and have been requested"];
  if (Number(fields.stale) === 1)
    return ["◌", "stale", "The source is disconnected or silent: these are its last values"];
  if (fields.state === "halted") return ["■", "halted", "Trading is halted"];
  if (fields.state === "paused") return ["❚❚", "paused", "Trading is paused"];
  if (fields.state === "closed") return ["×", "closed", "Trading is closed"];
  return null;
}
