// How the values of each type of key are read by page, changed and removed.

const PAGE = 200;
export const LONGEST = 65_536;

function pairs(reply) {
  if (!Array.isArray(reply)) return Object.entries(reply);
  if (reply.length > 0 && Array.isArray(reply[0])) return reply;
  const found = [];
  for (let index = 0; index < reply.length; index += 2) found.push([reply[index], reply[index + 1]]);
  return found;
}

// HSCAN, SSCAN and ZSCAN: the cursor 0 ends.
const scanned = (command, rows) => async (hub, key, token) => {
  const [cursor, reply] = await hub.do(command, key, token ?? "0", "COUNT", PAGE);
  return { rows: rows(reply), next: String(cursor) === "0" ? null : String(cursor) };
};

// A range by index.
const ranged = (read, rows) => async (hub, key, token) => {
  const from = token ?? 0;
  const reply = rows(await hub.do(...read(key, from, from + PAGE - 1)), from);
  return { rows: reply, next: reply.length < PAGE ? null : from + PAGE };
};

async function entries(hub, key, token) {
  const reply = await hub.do("XREVRANGE", key, token === null ? "+" : `(${token}`, "-", "COUNT", 50);
  const rows = reply.map(([id, fields]) => [
    id,
    pairs(fields)
      .map(([name, value]) => `${name} ${value}`)
      .join("  "),
  ]);
  return { rows, next: rows.length < 50 ? null : rows.at(-1)[0] };
}

export const KINDS = {
  string: { length: "STRLEN" },
  hash: {
    length: "HLEN",
    columns: ["Field", "Value"],
    page: scanned("HSCAN", pairs),
    edited: 1,
    edit: (key, [field], value) => ["HSET", key, field, value],
    remove: (key, [field]) => ["HDEL", key, field],
    add: { names: ["field", "value"], command: (key, [field, value]) => ["HSET", key, field, value] },
  },
  list: {
    length: "LLEN",
    columns: ["Index", "Value"],
    edited: 1,
    page: ranged(
      (key, from, to) => ["LRANGE", key, from, to],
      (reply, from) => reply.map((value, index) => [String(from + index), value]),
    ),
    edit: (key, [index], value) => ["LSET", key, index, value],
    add: { names: ["value, at the end"], command: (key, [value]) => ["RPUSH", key, value] },
  },
  set: {
    length: "SCARD",
    columns: ["Member"],
    page: scanned("SSCAN", (reply) => reply.map((member) => [member])),
    remove: (key, [member]) => ["SREM", key, member],
    add: { names: ["member"], command: (key, [member]) => ["SADD", key, member] },
  },
  zset: {
    length: "ZCARD",
    columns: ["Member", "Score"],
    edited: 1,
    page: ranged((key, from, to) => ["ZRANGE", key, from, to, "WITHSCORES"], pairs),
    edit: (key, [member], score) => ["ZADD", key, score, member],
    remove: (key, [member]) => ["ZREM", key, member],
    add: { names: ["member", "score"], command: (key, [member, score]) => ["ZADD", key, score, member] },
  },
  stream: {
    length: "XLEN",
    columns: ["Entry, newest first", "Fields"],
    page: entries,
    remove: (key, [id]) => ["XDEL", key, id],
    add: { names: ["field", "value"], command: (key, [field, value]) => ["XADD", key, "*", field, value] },
  },
};
