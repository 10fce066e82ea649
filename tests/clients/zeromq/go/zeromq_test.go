// Package zeromq has the tests of Tidewire's ZeroMQ sockets and of a hub's ports by go-zeromq,
// which has nothing of libzmq in it.
package zeromq

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-zeromq/zmq4"
	"github.com/go-zeromq/zmq4/security/plain"
)

const (
	patience      = 20 * time.Second
	routingID     = 5
	subscribe     = 6
	plainServer   = 44
	plainUsername = 45
	plainPassword = 46
)

var sizes = []int{0, 1, 255, 256, 8_192, 300_000}

// end sends and receives whole messages.
type end interface {
	send([][]byte)
	receive() [][]byte
}

// theirs is a socket of go-zeromq.
type theirs struct {
	t      *testing.T
	socket zmq4.Socket
}

func (s *theirs) send(frames [][]byte) {
	s.t.Helper()
	for end := time.Now().Add(patience); ; {
		err := s.socket.SendMulti(zmq4.NewMsgFrom(frames...))
		if err == nil {
			return
		}
		// Its REQ does not wait until somebody has connected.
		if !strings.Contains(err.Error(), "no connections available") || time.Now().After(end) {
			s.t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (s *theirs) receive() [][]byte {
	s.t.Helper()
	message, err := s.socket.Recv()
	if err != nil {
		s.t.Fatal(err)
	}
	return message.Frames
}

// The kinds that go-zeromq has, ours first.
var pairs = [][2]string{
	{"PAIR", "PAIR"},
	{"PUSH", "PULL"},
	{"PULL", "PUSH"},
	{"REQ", "REP"},
	{"REP", "REQ"},
	{"DEALER", "DEALER"},
	{"DEALER", "ROUTER"},
	{"ROUTER", "DEALER"},
	{"XPUB", "SUB"},
	{"SUB", "PUB"},
}

func open(t *testing.T, kind string, options ...zmq4.Option) *theirs {
	ctx, cancel := context.WithCancel(context.Background())
	options = append(options, zmq4.WithTimeout(patience), zmq4.WithDialerRetry(20*time.Millisecond))
	makers := map[string]func(context.Context, ...zmq4.Option) zmq4.Socket{
		"PAIR": zmq4.NewPair, "PUSH": zmq4.NewPush, "PULL": zmq4.NewPull, "REQ": zmq4.NewReq,
		"REP": zmq4.NewRep, "DEALER": zmq4.NewDealer, "ROUTER": zmq4.NewRouter,
		"SUB": zmq4.NewSub, "PUB": zmq4.NewPub,
	}
	socket := makers[kind](ctx, options...)
	t.Cleanup(func() {
		socket.Close()
		cancel()
	})
	return &theirs{t, socket}
}

func TestPairs(t *testing.T) {
	tidewire := startPeer(t)
	if _, err := tidewire.ask("allow user secret"); err != nil {
		t.Fatal(err)
	}
	for _, mechanism := range []string{"NULL", "PLAIN"} {
		for _, transport := range []string{"tcp", "ipc"} {
			for _, oursBinds := range []bool{true, false} {
				for _, kinds := range pairs {
					name := fmt.Sprintf("%s-%s-%s-%s-ours-binds-%v", kinds[0], kinds[1], mechanism, transport, oursBinds)
					t.Run(name, func(t *testing.T) {
						pair(t, tidewire, kinds, mechanism, transport, oursBinds)
					})
				}
			}
		}
	}
}

func pair(t *testing.T, tidewire *peer, kinds [2]string, mechanism, transport string, oursBinds bool) {
	var options []zmq4.Option
	ours := tidewire.open(t, kinds[0])
	if kinds[1] == "DEALER" || kinds[1] == "REQ" {
		options = append(options, zmq4.WithID(zmq4.SocketIdentity("theirs")))
	}
	if kinds[0] == "DEALER" || kinds[0] == "REQ" {
		ours.set(routingID, []byte("ours"))
	}
	if mechanism == "PLAIN" {
		options = append(options, zmq4.WithSecurity(plain.Security("user", "secret")))
		if oursBinds {
			ours.set(plainServer, number(1))
		} else {
			ours.set(plainUsername, []byte("user"))
			ours.set(plainPassword, []byte("secret"))
		}
	}
	theirs := open(t, kinds[1], options...)
	if kinds[1] == "SUB" {
		if err := theirs.socket.SetOption(zmq4.OptionSubscribe, "a"); err != nil {
			t.Fatal(err)
		}
	}
	if kinds[0] == "SUB" {
		ours.set(subscribe, []byte("a"))
	}
	endpoint := "ipc://" + t.TempDir() + "/s"
	if oursBinds {
		if transport == "tcp" {
			endpoint = "tcp://127.0.0.1:*"
		}
		if err := theirs.socket.Dial(ours.must("bind", endpoint)); err != nil {
			t.Fatal(err)
		}
	} else {
		if transport == "tcp" {
			endpoint = "tcp://127.0.0.1:0"
		}
		if err := theirs.socket.Listen(endpoint); err != nil {
			t.Fatal(err)
		}
		if transport == "tcp" {
			endpoint = "tcp://" + theirs.socket.Addr().String()
		}
		ours.must("connect", endpoint)
	}
	converse(t, kinds, ours, theirs)
}

func converse(t *testing.T, kinds [2]string, ours *ours, theirs *theirs) {
	switch kinds {
	case [2]string{"PUSH", "PULL"}:
		for _, message := range messages() {
			pass(t, ours, theirs, message, message)
		}
	case [2]string{"PULL", "PUSH"}:
		for _, message := range messages() {
			pass(t, theirs, ours, message, message)
		}
	case [2]string{"XPUB", "SUB"}:
		same(t, ours.receive(), [][]byte{[]byte("\x01a")})
		publish(t, ours, theirs)
	case [2]string{"SUB", "PUB"}:
		// Their PUB does not tell when the subscription is there.
		time.Sleep(300 * time.Millisecond)
		publish(t, theirs, ours)
	case [2]string{"DEALER", "ROUTER"}, [2]string{"ROUTER", "DEALER"}:
		var dealer, router end = ours, theirs
		name := []byte("ours")
		if kinds[0] == "ROUTER" {
			dealer, router, name = theirs, ours, []byte("theirs")
		}
		for _, message := range messages() {
			named := append([][]byte{name}, message...)
			pass(t, dealer, router, message, named)
			pass(t, router, dealer, named, message)
		}
	case [2]string{"REP", "REQ"}:
		for _, message := range messages() {
			pass(t, theirs, ours, message, message)
			pass(t, ours, theirs, message, message)
		}
	case [2]string{"REQ", "REP"}:
		// Its REP takes an empty frame of the body for the end of the envelope.
		for _, message := range messages()[1:len(sizes)] {
			pass(t, ours, theirs, message, message)
			pass(t, theirs, ours, message, message)
		}
	default:
		for _, message := range messages() {
			pass(t, ours, theirs, message, message)
			pass(t, theirs, ours, message, message)
		}
	}
}

func publish(t *testing.T, publisher, subscriber end) {
	t.Helper()
	for _, message := range messages() {
		publisher.send(append([][]byte{[]byte("b: not asked for")}, message...))
		wanted := append([][]byte{[]byte("a topic")}, message...)
		pass(t, publisher, subscriber, wanted, wanted)
	}
}

func pass(t *testing.T, from, to end, sent, expected [][]byte) {
	t.Helper()
	from.send(sent)
	same(t, to.receive(), expected)
}

func same(t *testing.T, actual, expected [][]byte) {
	t.Helper()
	equal := len(actual) == len(expected)
	for at := 0; equal && at < len(actual); at++ {
		equal = bytes.Equal(actual[at], expected[at])
	}
	if !equal {
		t.Fatalf("%d frames, not the %d that were sent", len(actual), len(expected))
	}
}

func messages() [][][]byte {
	var all [][][]byte
	for _, size := range sizes {
		all = append(all, [][]byte{make([]byte, size)})
	}
	long := bytes.Repeat([]byte("x"), 70_000)
	return append(all, [][]byte{[]byte("first"), {}, long, []byte("last")})
}

func TestHub(t *testing.T) {
	t.Run("ports", func(t *testing.T) {
		connect := func(kind, port string) *theirs {
			one := open(t, kind)
			if err := one.socket.Dial(os.Getenv("TIDEWIRE_ZMQ_" + port)); err != nil {
				t.Fatal(err)
			}
			return one
		}
		push, req := connect("PUSH", "PULL"), connect("REQ", "ROUTER")
		texts := func(words ...string) [][]byte {
			var frames [][]byte
			for _, word := range words {
				frames = append(frames, []byte(word))
			}
			return frames
		}
		push.send(texts("live:go", "1"))
		for {
			req.send(texts("GET", "live:go"))
			if frames := req.receive(); len(frames) == 2 && string(frames[1]) == "1" {
				break
			}
		}
		sub := connect("SUB", "PUB")
		if err := sub.socket.SetOption(zmq4.OptionSubscribe, "live:go"); err != nil {
			t.Fatal(err)
		}
		same(t, sub.receive(), texts("live:go", "1"))
		push.send(texts("live:go", "2"))
		same(t, sub.receive(), texts("live:go", "2"))
		req.send(texts("SNAPSHOT live:go"))
		same(t, req.receive(), texts("OK", "", "live:go", "2"))
	})
}
