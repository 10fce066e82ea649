package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A reply of the server. kind is '+', '-', ':', '$', '*' or '_' (null).
type reply struct {
	kind  byte
	text  string
	items []reply
}

func (r reply) String() string {
	switch r.kind {
	case '_':
		return "null"
	case '*':
		items := make([]string, len(r.items))
		for i, item := range r.items {
			items[i] = item.String()
		}
		return "[" + strings.Join(items, " ") + "]"
	case '$':
		return strconv.Quote(r.text)
	case '-':
		return "error " + r.text
	}
	return r.text
}

func (r reply) equal(other reply) bool {
	return r.kind == other.kind && r.text == other.text && slices.EqualFunc(r.items, other.items, reply.equal)
}

// A connection speaks RESP2 and nothing else, so that no client library stands between a call and
// its time.
type connection struct {
	socket net.Conn
	reader *bufio.Reader
	writer *bufio.Writer
}

func dial(address string) (*connection, error) {
	socket, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		return nil, err
	}
	return &connection{socket, bufio.NewReader(socket), bufio.NewWriter(socket)}, nil
}

func (c *connection) close() { c.socket.Close() }

// queue puts one command behind those that wait to be sent.
func (c *connection) queue(words ...string) {
	fmt.Fprintf(c.writer, "*%d\r\n", len(words))
	for _, word := range words {
		fmt.Fprintf(c.writer, "$%d\r\n%s\r\n", len(word), word)
	}
}

// send sends what is queued. A server that does not answer in time has failed.
func (c *connection) send() error {
	c.socket.SetDeadline(time.Now().Add(patience))
	return c.writer.Flush()
}

// do runs one command.
func (c *connection) do(words ...string) (reply, error) {
	c.queue(words...)
	if err := c.send(); err != nil {
		return reply{}, err
	}
	return c.read()
}

func (c *connection) read() (reply, error) {
	line, err := c.reader.ReadString('\n')
	if err != nil {
		return reply{}, err
	}
	line = strings.TrimSuffix(line, "\r\n")
	if line == "" {
		return reply{}, fmt.Errorf("an empty reply")
	}
	kind, rest := line[0], line[1:]
	switch kind {
	case '+', ':':
		return reply{kind: kind, text: rest}, nil
	case '-':
		// The first word is what clients act on.
		word, _, _ := strings.Cut(rest, " ")
		return reply{kind: kind, text: word}, nil
	case '$', '*':
		return c.readLong(kind, rest)
	}
	return reply{}, fmt.Errorf("not a reply: %q", line)
}

func (c *connection) readLong(kind byte, rest string) (reply, error) {
	length, err := strconv.Atoi(rest)
	if err != nil {
		return reply{}, err
	}
	if length < 0 {
		return reply{kind: '_'}, nil
	}
	if kind == '$' {
		text := make([]byte, length+2)
		_, err := io.ReadFull(c.reader, text)
		return reply{kind: '$', text: string(text[:length])}, err
	}
	items := make([]reply, length)
	for i := range items {
		if items[i], err = c.read(); err != nil {
			return reply{}, err
		}
	}
	return reply{kind: '*', items: items}, nil
}

const patience = 20 * time.Second
