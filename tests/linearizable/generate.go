package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
)

// A window is one history: what so many clients do between two moments without a client.
type window struct {
	profile
	number uint64
	names  []*[keysMax]string
}

// A profile says what clients do in a window.
type profile struct {
	// One model of all keys of two databases, with the commands that see all of them.
	whole  bool
	groups int
	keys   int
	shapes []shape
	// One command in so many is one on a database.
	globalOneIn int
	// One call in so many is a pipeline of several.
	pipelineOneIn int
	// All clients but the first two only look at a database.
	watchers bool
	// Clients that work; 0 is all of them.
	clients int
}

var profiles = []profile{
	{groups: 6, keys: 3, shapes: everything, pipelineOneIn: 3},
	{whole: true, groups: 1, keys: 3, shapes: everything, globalOneIn: 4, pipelineOneIn: 3},
	{groups: 2, keys: 3, shapes: several, pipelineOneIn: 3},
	{whole: true, groups: 1, keys: 4, shapes: renames, globalOneIn: 16, pipelineOneIn: 1, watchers: true, clients: 4},
}

func newWindow(number uint64) *window {
	w := &window{profile: profiles[number%uint64(len(profiles))], number: number}
	for group := range w.groups {
		names := &[keysMax]string{}
		for key := range names {
			// The last digit is the key's place in its database. Each window has other names, so
			// that keys meet in all shards.
			names[key] = fmt.Sprintf("%d:%d:%d", number, group, key%keysInBase)
		}
		w.names = append(w.names, names)
	}
	return w
}

// A generator makes the calls of one client.
type generator struct {
	*window
	random *rand.Rand
	client int
	base   int
	token  int
	// Calls of each group.
	turns []int
}

// call makes one call: a command, a transaction or a script.
func (g *generator) call() input {
	group := g.random.IntN(g.groups)
	in := input{group: group, base: g.base, names: g.names[group]}
	if g.random.IntN(10) == 0 {
		in.transaction = true
		for range 2 + g.random.IntN(3) {
			in.commands = append(in.commands, g.command(true))
		}
		return in
	}
	in.commands = []command{g.command(false)}
	return in
}

func (g *generator) command(inTransaction bool) command {
	if g.watchers && g.client > 1 {
		if g.random.IntN(4) == 0 {
			return command{name: "KEYS", args: []string{"*"}}
		}
		return command{name: "DBSIZE"}
	}
	if g.whole && g.random.IntN(g.globalOneIn) == 0 {
		return g.global(inTransaction)
	}
	for {
		shape := g.shapes[g.random.IntN(len(g.shapes))]
		if inTransaction && shape.blocks {
			continue
		}
		c := command{name: shape.name, keys: g.some(shape.keys)}
		for _, kind := range shape.args {
			c.args = append(c.args, g.argument(kind))
		}
		if shape.argPerKey {
			c.args = nil
			for range c.keys {
				c.args = append(c.args, g.argument('v'))
			}
		}
		if c.name == "COPY" && g.whole && g.random.IntN(3) == 0 {
			c.keys[1] = c.keys[1] - g.base + (keysInBase - g.base)
			c.args = append(c.args, "DB", strconv.Itoa(1-g.base/keysInBase))
		}
		return c
	}
}

// global makes a command on a database. Few of them empty one, or there would be nothing to see.
func (g *generator) global(inTransaction bool) command {
	switch g.random.IntN(24) {
	case 0:
		return command{name: "FLUSHALL"}
	case 1:
		return command{name: "FLUSHDB"}
	case 2:
		return command{name: "SWAPDB", args: []string{"0", "1"}}
	case 3, 4, 5:
		other := strconv.Itoa(1 - g.base/keysInBase)
		return command{name: "MOVE", keys: g.some(1), args: []string{other}}
	case 6, 7:
		return command{name: "EVAL-SIZE", keys: g.some(1), args: []string{g.argument('v')}}
	case 8, 9:
		return command{name: "RANDOMKEY"}
	case 10, 11, 12:
		return command{name: "KEYS", args: []string{"*"}}
	case 13, 14, 15:
		keys := g.some(2)
		return command{name: "RENAME", keys: keys}
	}
	return command{name: "DBSIZE"}
}

// some are so many different keys.
func (g *generator) some(count int) []int {
	keys := g.random.Perm(g.keys)[:count]
	for i := range keys {
		keys[i] += g.base
	}
	return keys
}

func (g *generator) argument(kind byte) string {
	switch kind {
	case 'n':
		return strconv.Itoa(1 + g.random.IntN(9))
	case 'f', 'm':
		return string([]byte{kind, byte('0' + g.random.IntN(4))})
	case 'v':
		if g.random.IntN(3) == 0 {
			return strconv.Itoa(g.random.IntN(100))
		}
	}
	// No two calls write the same text, so that a reply says whose value it saw.
	g.token++
	return fmt.Sprintf("c%dt%d", g.client, g.token)
}

// A shape is how a command is made up: arguments are 'v' a value, 't' a token, 'n' a number, 'f' a
// field and 'm' a member of a small set.
type shape struct {
	name      string
	keys      int
	args      []byte
	argPerKey bool
	blocks    bool
}

var everything = slices.Concat(
	repeat(5, shape{name: "GET", keys: 1}, shape{name: "SET", keys: 1, args: []byte("v")}),
	repeat(2,
		shape{name: "INCR", keys: 1},
		shape{name: "APPEND", keys: 1, args: []byte("t")},
		shape{name: "DEL", keys: 1},
		shape{name: "SETNX", keys: 1, args: []byte("v")},
		shape{name: "GETSET", keys: 1, args: []byte("v")},
		shape{name: "GETDEL", keys: 1},
		shape{name: "MSET", keys: 2, argPerKey: true},
		shape{name: "MGET", keys: 3},
		shape{name: "RENAME", keys: 2},
		shape{name: "COPY", keys: 2},
		shape{name: "RPUSH", keys: 1, args: []byte("tt")},
		shape{name: "LPOP", keys: 1},
		shape{name: "LMOVE", keys: 2},
	),
	repeat(1,
		shape{name: "INCRBY", keys: 1, args: []byte("n")},
		shape{name: "STRLEN", keys: 1},
		shape{name: "MSETNX", keys: 2, argPerKey: true},
		shape{name: "MSET", keys: 3, argPerKey: true},
		shape{name: "MGET", keys: 2},
		shape{name: "DEL", keys: 2},
		shape{name: "UNLINK", keys: 3},
		shape{name: "EXISTS", keys: 3},
		shape{name: "TYPE", keys: 1},
		shape{name: "RENAMENX", keys: 2},
		shape{name: "LPUSH", keys: 1, args: []byte("t")},
		shape{name: "RPOP", keys: 1},
		shape{name: "LLEN", keys: 1},
		shape{name: "LRANGE", keys: 1},
		shape{name: "BLPOP", keys: 2, blocks: true},
		shape{name: "BLMOVE", keys: 2, blocks: true},
		shape{name: "HSET", keys: 1, args: []byte("fv")},
		shape{name: "HGET", keys: 1, args: []byte("f")},
		shape{name: "HDEL", keys: 1, args: []byte("f")},
		shape{name: "HINCRBY", keys: 1, args: []byte("fn")},
		shape{name: "HGETALL", keys: 1},
		shape{name: "SADD", keys: 1, args: []byte("m")},
		shape{name: "SREM", keys: 1, args: []byte("m")},
		shape{name: "SPOP", keys: 1},
		shape{name: "SCARD", keys: 1},
		shape{name: "SMEMBERS", keys: 1},
		shape{name: "SMOVE", keys: 2, args: []byte("m")},
		shape{name: "SUNIONSTORE", keys: 3},
		shape{name: "EVAL-RENAME", keys: 2},
		shape{name: "EVAL-SWAP", keys: 2},
		shape{name: "EVAL-BOTH", keys: 2, args: []byte("t")},
	),
)

// several are commands on more than one key, which lock more than one shard.
var several = []shape{
	{name: "MSET", keys: 3, argPerKey: true},
	{name: "MSET", keys: 2, argPerKey: true},
	{name: "MGET", keys: 3},
	{name: "MGET", keys: 3},
	{name: "RENAME", keys: 2},
	{name: "RENAMENX", keys: 2},
	{name: "COPY", keys: 2},
	{name: "EXISTS", keys: 3},
	{name: "DEL", keys: 2},
	{name: "INCR", keys: 1},
	{name: "EVAL-SWAP", keys: 2},
}

// renames leave as many keys as there were; what counts keys must see just as many.
var renames = slices.Concat(
	repeat(12, shape{name: "RENAME", keys: 2}),
	repeat(2, shape{name: "RENAMENX", keys: 2}),
	repeat(1, shape{name: "SET", keys: 1, args: []byte("v")}, shape{name: "EVAL-RENAME", keys: 2}),
)

func repeat(times int, some ...shape) []shape { return slices.Repeat(some, times) }

// words are the command as it is sent.
func (c command) words(names *[keysMax]string) []string {
	keys := make([]string, len(c.keys))
	for i, key := range c.keys {
		keys[i] = names[key]
	}
	if one, is := scripts[c.name]; is {
		return slices.Concat([]string{"EVAL", one.source, strconv.Itoa(len(keys))}, keys, c.args)
	}
	words := []string{c.name}
	switch c.name {
	case "MSET", "MSETNX":
		for i, key := range keys {
			words = append(words, key, c.args[i])
		}
		return words
	case "LRANGE":
		return append(append(words, keys...), "0", "-1")
	case "LMOVE":
		return append(append(words, keys...), "LEFT", "RIGHT")
	case "BLMOVE":
		return append(append(words, keys...), "LEFT", "RIGHT", waitS)
	case "BLPOP":
		return append(append(words, keys...), waitS)
	}
	return slices.Concat(words, keys, c.args)
}

// How long a client waits for an element, in seconds.
const waitS = "0.001"
