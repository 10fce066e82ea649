package main

import (
	"testing"

	"github.com/anishathalye/porcupine"
)

func call(client, turn int, begin, end int64, out reply, commands ...command) porcupine.Operation {
	in := input{client: client, turn: turn, commands: commands, transaction: len(commands) > 1, names: &[keysMax]string{}}
	return porcupine.Operation{ClientId: client, Input: in, Call: begin, Output: out, Return: end}
}

func TestAFaultIsFound(t *testing.T) {
	set := command{name: "SET", keys: []int{0}, args: []string{"a"}}
	rename := command{name: "RENAME", keys: []int{0, 1}}
	get := command{name: "GET", keys: []int{0}}
	size := command{name: "DBSIZE"}
	twoReplies := func(a, b reply) reply { return reply{kind: '*', items: []reply{a, b}} }
	tests := []struct {
		name    string
		history []porcupine.Operation
		legal   bool
	}{
		{"a value that was written is read", []porcupine.Operation{
			call(0, 0, 0, 10, ok(), set), call(1, 0, 5, 15, bulk("a"), get),
		}, true},
		{"a write that had not begun is read", []porcupine.Operation{
			call(0, 0, 20, 30, ok(), set), call(1, 0, 5, 15, bulk("a"), get),
		}, false},
		{"a write that had ended is not read", []porcupine.Operation{
			call(0, 0, 0, 10, ok(), set), call(1, 0, 15, 25, null(), get),
		}, false},
		{"a key is counted while it is renamed", []porcupine.Operation{
			call(0, 0, 0, 10, ok(), set), call(0, 1, 20, 30, ok(), rename), call(1, 0, 15, 35, number(1), size),
		}, true},
		{"a key is missed while it is renamed", []porcupine.Operation{
			call(0, 0, 0, 10, ok(), set), call(0, 1, 20, 30, ok(), rename), call(1, 0, 15, 35, number(0), size),
		}, false},
		{"a pipeline runs in its order", []porcupine.Operation{
			call(0, 0, 0, 10, null(), get), call(0, 1, 0, 10, ok(), set),
		}, true},
		{"a pipeline runs in another order", []porcupine.Operation{
			call(0, 0, 0, 10, bulk("a"), get), call(0, 1, 0, 10, ok(), set),
		}, false},
		{"a transaction is split", []porcupine.Operation{
			call(0, 0, 0, 10, ok(), set), call(1, 0, 0, 10, twoReplies(null(), bulk("a")), get, get),
		}, false},
	}
	for _, test := range tests {
		if porcupine.CheckOperations(model, test.history) != test.legal {
			t.Errorf("%s: legal should be %v", test.name, test.legal)
		}
	}
}
