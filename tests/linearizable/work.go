package main

import (
	"strconv"
	"time"

	"github.com/anishathalye/porcupine"
)

// A client has one connection, on a lane that the server chooses.
type client struct {
	*connection
	generator  *generator
	operations []porcupine.Operation
}

func connect(s settings) ([]*client, error) {
	clients := make([]*client, s.clients)
	for i := range clients {
		c, err := dial(s.address)
		if err != nil {
			closeAll(clients[:i])
			return nil, err
		}
		clients[i] = &client{connection: c}
	}
	return clients, nil
}

func closeAll(clients []*client) {
	for _, c := range clients {
		c.close()
	}
}

// work makes so many calls.
func (c *client) work(steps int) error {
	base := strconv.Itoa(c.generator.base / keysInBase)
	if _, err := c.do("SELECT", base); err != nil {
		return err
	}
	for done := 0; done < steps; {
		var err error
		count := 1
		switch g := c.generator; {
		case g.random.IntN(g.pipelineOneIn) == 0:
			count = 2 + g.random.IntN(pipelineMax-1)
			err = c.pipeline(count)
		case g.random.IntN(12) == 0:
			err = c.watched()
		default:
			err = c.pipeline(1)
		}
		if err != nil {
			return err
		}
		done += count
	}
	return nil
}

// pipeline sends so many calls at once.
func (c *client) pipeline(count int) error {
	calls := make([]input, count)
	for i := range calls {
		calls[i] = c.generator.call()
		if calls[i].transaction {
			c.queue("MULTI")
		}
		for _, one := range calls[i].commands {
			c.queue(one.words(calls[i].names)...)
		}
		if calls[i].transaction {
			c.queue("EXEC")
		}
	}
	begin := now()
	if err := c.send(); err != nil {
		return err
	}
	for _, call := range calls {
		skipped := 0
		if call.transaction {
			skipped = 1 + len(call.commands)
		}
		for range skipped {
			if _, err := c.read(); err != nil {
				return err
			}
		}
		out, err := c.read()
		if err != nil {
			return err
		}
		c.note(call, begin, out)
	}
	return nil
}

// watched reads a key and writes it if nobody did in between. If somebody did, there is nothing
// to explain.
func (c *client) watched() error {
	g := c.generator
	group := g.random.IntN(g.groups)
	in := input{group: group, base: g.base, names: g.names[group]}
	key := g.some(1)
	name := in.names[key[0]]
	if _, err := c.do("WATCH", name); err != nil {
		return err
	}
	begin := now()
	seen, err := c.do("GET", name)
	if err != nil {
		return err
	}
	in.commands = []command{{name: "GET", keys: key}}
	c.note(in, begin, seen)
	if seen.kind == '-' {
		_, err := c.do("UNWATCH")
		return err
	}
	write := command{name: "EXEC-WATCHED", keys: key, args: []string{g.argument('v')}}
	if seen.kind == '$' {
		write.args = append(write.args, seen.text)
	}
	c.queue("MULTI")
	c.queue("SET", name, write.args[0])
	c.queue("EXEC")
	begin = now()
	if err := c.send(); err != nil {
		return err
	}
	var out reply
	for range 3 {
		if out, err = c.read(); err != nil {
			return err
		}
	}
	if out.kind != '_' {
		in.commands = []command{write}
		c.note(in, begin, out)
	}
	return nil
}

func (c *client) note(in input, begin int64, out reply) {
	in.client, in.turn = c.generator.client, c.generator.turns[in.group]
	c.generator.turns[in.group]++
	c.operations = append(c.operations, porcupine.Operation{
		ClientId: c.generator.client, Input: in, Call: begin, Output: out, Return: now(),
	})
}

const pipelineMax = 12

var start = time.Now()

// now is the time in nanoseconds since the start.
func now() int64 { return int64(time.Since(start)) }
