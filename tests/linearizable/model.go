package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/anishathalye/porcupine"
)

// A state is every key that a history can touch: in a window of groups the keys of one group, in a
// window of the whole keyspace those of database 0 and, behind them, those of database 1. A value
// is a letter for its type and its text, and an absent key is empty, so that states compare with ==.
type state [keysMax]string

const (
	keysMax     = 8
	keysInBase  = 4
	typeString  = 's'
	typeList    = 'l'
	typeHash    = 'h'
	typeSet     = 'S'
	separator   = ","
	fieldMiddle = "="
)

// A command names keys by their place in the state.
type command struct {
	name string
	keys []int
	args []string
}

// A world is a state and how far each client has come: a connection's commands are run in the order
// in which they were sent, also where several are on their way at once.
type world struct {
	state
	next [clientsMax]int
}

const clientsMax = 8

// An input is what one call asked for: one command, the commands of a transaction, or a script.
type input struct {
	client int
	// The how-manieth it is of this client, in its group.
	turn int

	// Keys of different groups have nothing to do with one another.
	group int
	// The database that the client has selected.
	base     int
	commands []command
	// The replies come in one array.
	transaction bool
	names       *[keysMax]string
}

func (in input) String() string {
	texts := make([]string, len(in.commands))
	for i, c := range in.commands {
		texts[i] = strings.Join(c.words(in.names), " ")
	}
	text := strings.Join(texts, "; ")
	if in.transaction {
		text = "MULTI; " + text + "; EXEC"
	}
	return fmt.Sprintf("db%d %s", in.base, text)
}

// model is what Redis's documentation says of the commands that are sent.
var model = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		groups := map[int][]porcupine.Operation{}
		for _, operation := range history {
			group := operation.Input.(input).group
			groups[group] = append(groups[group], operation)
		}
		return slices.Collect(maps.Values(groups))
	},
	Init: func() any { return world{} },
	Step: func(before, in, out any) (bool, any) {
		after, call := before.(world), in.(input)
		if after.next[call.client] != call.turn {
			return false, before
		}
		after.next[call.client]++
		return after.step(call, out.(reply)), after
	},
	DescribeOperation: func(in, out any) string {
		return fmt.Sprintf("%v -> %v", in.(input), out.(reply))
	},
	DescribeState: func(s any) string { return fmt.Sprintf("%q", s.(world).state) },
}

// step takes one call and says whether it can have had this reply.
func (s *state) step(in input, out reply) bool {
	if !in.transaction {
		return s.run(in.base, in.commands[0], out)
	}
	if out.kind != '*' || len(out.items) != len(in.commands) {
		return false
	}
	for i, c := range in.commands {
		if !s.run(in.base, c, out.items[i]) {
			return false
		}
	}
	return true
}

func (s *state) run(base int, c command, out reply) bool {
	if check, ok := loose[c.name]; ok {
		return check(s, base, c, out)
	}
	exact, ok := exacts[c.name]
	if !ok {
		panic("no model of " + c.name)
	}
	expected := exact(s, base, c)
	if unordered[c.name] {
		expected, out = sorted(expected, c.name), sorted(out, c.name)
	}
	return expected.equal(out)
}

// sorted brings replies without an order into one.
func sorted(r reply, name string) reply {
	width := 1
	if name == "HGETALL" {
		width = 2
	}
	chunks := slices.Collect(slices.Chunk(r.items, width))
	slices.SortFunc(chunks, func(a, b []reply) int { return strings.Compare(a[0].text, b[0].text) })
	return reply{kind: r.kind, text: r.text, items: slices.Concat(chunks...)}
}

func ok() reply               { return reply{kind: '+', text: "OK"} }
func null() reply             { return reply{kind: '_'} }
func number(n int) reply      { return reply{kind: ':', text: strconv.Itoa(n)} }
func bulk(text string) reply  { return reply{kind: '$', text: text} }
func failed(why string) reply { return reply{kind: '-', text: why} }
func truth(is bool) reply {
	if is {
		return number(1)
	}
	return number(0)
}

func bulks(texts []string) reply {
	items := make([]reply, len(texts))
	for i, text := range texts {
		items[i] = bulk(text)
	}
	return reply{kind: '*', items: items}
}

var wrongType = failed("WRONGTYPE")

// is says whether a key is absent or has this type.
func (s *state) is(key int, kind byte) bool { return s[key] == "" || s[key][0] == kind }

// parts are the elements of a list or set, or a hash's fields with their values.
func (s *state) parts(key int) []string {
	if s[key] == "" {
		return nil
	}
	return strings.Split(s[key][1:], separator)
}

func (s *state) setParts(key int, kind byte, parts []string) {
	if kind != typeList {
		slices.Sort(parts)
	}
	s[key] = ""
	if len(parts) > 0 {
		s[key] = string(kind) + strings.Join(parts, separator)
	}
}

func (s *state) fields(key int) map[string]string {
	fields := map[string]string{}
	for _, part := range s.parts(key) {
		field, value, _ := strings.Cut(part, fieldMiddle)
		fields[field] = value
	}
	return fields
}

func (s *state) setFields(key int, fields map[string]string) {
	parts := make([]string, 0, len(fields))
	for field, value := range fields {
		parts = append(parts, field+fieldMiddle+value)
	}
	s.setParts(key, typeHash, parts)
}

func (s *state) text(key int) reply {
	if s[key] == "" {
		return null()
	}
	return bulk(s[key][1:])
}

func (s *state) set(key int, text string) { s[key] = string(typeString) + text }

// integer reads a number as Redis does: in its one shortest form.
func integer(text string) (int, bool) {
	n, err := strconv.Atoi(text)
	return n, err == nil && strconv.Itoa(n) == text
}

// size counts the keys of a database.
func (s *state) size(base int) int {
	count := 0
	for _, value := range s[base : base+keysInBase] {
		if value != "" {
			count++
		}
	}
	return count
}
