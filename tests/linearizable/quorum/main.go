// Command quorum runs clients against hubs with durability = "quorum" while others stop and kill
// these hubs, and checks with porcupine that all that the clients were told can have happened in one
// order. A write whose outcome a client was not told may have happened at any later time, or never.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"
)

type settings struct {
	hubs       []string
	operations uint64
	clients    int
	seed       uint64
	report     string
}

func main() {
	var s settings
	hubs := flag.String("hubs", "127.0.0.1:6379", "addresses of the hubs, with commas")
	flag.Uint64Var(&s.operations, "operations", 20_000, "stop after so many that were answered")
	flag.IntVar(&s.clients, "clients", 6, "clients at once")
	flag.Uint64Var(&s.seed, "seed", 1, "same seed, same calls")
	flag.StringVar(&s.report, "report", ".", "folder for a history with a violation")
	flag.Parse()
	s.hubs = strings.Split(*hubs, ",")
	r := &recorder{begin: time.Now()}
	var working sync.WaitGroup
	for number := range s.clients {
		working.Go(func() { r.work(s, number) })
	}
	// Tests cause the next fault when they read a line.
	finished := make(chan struct{})
	go r.tell(finished)
	working.Wait()
	close(finished)
	result, info := porcupine.CheckOperationsVerbose(model, r.operations, 5*time.Minute)
	fmt.Printf("%d operations, %d without an outcome, %d refused: %s\n",
		len(r.operations), r.unknown.Load(), r.refused.Load(), result)
	if result == porcupine.Ok {
		return
	}
	path := s.report + "/violation.html"
	if err := porcupine.VisualizePath(model, info, path); err == nil {
		fmt.Println(path)
	}
	os.Exit(1)
}

// A call is what a client asks for: get, set or add.
type call struct {
	kind, key string
	value     string
}

// An outcome is what it was told; unknown if nothing.
type outcome struct {
	value   string
	unknown bool
}

type recorder struct {
	lock             sync.Mutex
	operations       []porcupine.Operation
	begin            time.Time
	done             atomic.Uint64
	unknown, refused atomic.Uint64
}

func (r *recorder) tell(finished chan struct{}) {
	for {
		select {
		case <-finished:
			return
		case <-time.After(100 * time.Millisecond):
			fmt.Printf("done %d\n", r.done.Load())
		}
	}
}

// work calls until all clients together have enough answers.
func (r *recorder) work(s settings, client int) {
	random := rand.New(rand.NewPCG(s.seed, uint64(client)))
	at := client
	var link *connection
	for number := 0; ; number++ {
		done := r.done.Load()
		if done >= s.operations {
			return
		}
		if link == nil {
			if link = dial(s.hubs[at%len(s.hubs)]); link == nil {
				at++
				time.Sleep(20 * time.Millisecond)
				continue
			}
		}
		// A key is used for a short time: the checker's work grows with its history.
		key := fmt.Sprintf("%d:%d", done/operationsPerWindow, random.IntN(keysPerWindow))
		asked := call{kind: []string{"get", "set", "get", "add"}[random.IntN(4)], key: key}
		if asked.kind == "set" {
			asked.value = strconv.Itoa((client+1)*1_000_000_000 + number)
		}
		began := time.Since(r.begin).Nanoseconds()
		text, err := link.do(asked)
		ended := time.Since(r.begin).Nanoseconds()
		told := outcome{value: text}
		switch {
		case err == errNothingDone:
			// The hub says that the call has no effect.
			r.refused.Add(1)
			at++
			link.close()
			link = nil
			time.Sleep(10 * time.Millisecond)
			continue
		case err != nil:
			at++
			link.close()
			link = nil
			if asked.kind == "get" {
				continue
			}
			r.unknown.Add(1)
			told, ended = outcome{unknown: true}, math.MaxInt64
		default:
			r.done.Add(1)
		}
		r.lock.Lock()
		r.operations = append(r.operations, porcupine.Operation{
			ClientId: client, Input: asked, Output: told, Call: began, Return: ended,
		})
		r.lock.Unlock()
	}
}

// The model of one key: its text, "" for none.
var model = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		parts := map[string][]porcupine.Operation{}
		for _, operation := range history {
			key := operation.Input.(call).key
			parts[key] = append(parts[key], operation)
		}
		var all [][]porcupine.Operation
		for _, part := range parts {
			all = append(all, part)
		}
		return all
	},
	Init: func() any { return "" },
	Step: func(state, input, output any) (bool, any) {
		asked, told, now := input.(call), output.(outcome), state.(string)
		switch asked.kind {
		case "get":
			return told.value == now, now
		case "set":
			return true, asked.value
		}
		number, _ := strconv.Atoi(now)
		next := strconv.Itoa(number + 1)
		return told.unknown || told.value == next, next
	},
	DescribeOperation: func(input, output any) string {
		return fmt.Sprintf("%v: %v", input, output)
	},
}

type connection struct {
	socket net.Conn
	reader *bufio.Reader
}

var errNothingDone = fmt.Errorf("nothing was done")

func dial(address string) *connection {
	socket, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return nil
	}
	return &connection{socket, bufio.NewReader(socket)}
}

func (c *connection) close() { c.socket.Close() }

// do makes one call. Reads are GETEX, which a standby refuses: it may be behind.
func (c *connection) do(asked call) (string, error) {
	words := []string{"GETEX", asked.key}
	switch asked.kind {
	case "set":
		words = []string{"SET", asked.key, asked.value}
	case "add":
		words = []string{"INCR", asked.key}
	}
	var text strings.Builder
	fmt.Fprintf(&text, "*%d\r\n", len(words))
	for _, word := range words {
		fmt.Fprintf(&text, "$%d\r\n%s\r\n", len(word), word)
	}
	c.socket.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(c.socket, text.String()); err != nil {
		return "", err
	}
	line, err := c.reader.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimSuffix(line, "\r\n")
	switch line[0] {
	case '+', ':':
		return line[1:], nil
	case '$':
		length, err := strconv.Atoi(line[1:])
		if err != nil || length < 0 {
			return "", err
		}
		body := make([]byte, length+2)
		_, err = io.ReadFull(c.reader, body)
		return string(body[:length]), err
	}
	for _, sure := range []string{"-READONLY", "-LOADING", "-ERR max number"} {
		if strings.HasPrefix(line, sure) {
			return "", errNothingDone
		}
	}
	if strings.HasPrefix(line, "-CLUSTERDOWN") && !strings.Contains(line, "may or may not") {
		return "", errNothingDone
	}
	return "", fmt.Errorf("told: %s", line)
}

const (
	operationsPerWindow = 300
	keysPerWindow       = 4
	patience            = 20 * time.Second
)
