// Command linearizable runs many clients against one server at once and checks with porcupine that
// all that they were told can have happened in one order, each command at one moment.
package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"
)

type settings struct {
	address    string
	appendonly string
	operations uint64
	seconds    float64
	clients    int
	steps      int
	seed       uint64
	report     string
}

func main() {
	var s settings
	flag.StringVar(&s.address, "address", "127.0.0.1:6379", "the server")
	flag.StringVar(&s.appendonly, "appendonly", "no", "no, or the policy of the append-only file")
	flag.Uint64Var(&s.operations, "operations", 1_000_000, "stop after so many")
	flag.Float64Var(&s.seconds, "seconds", 0, "stop after so many seconds, if not 0")
	flag.IntVar(&s.clients, "clients", 6, "clients at once")
	flag.IntVar(&s.steps, "steps", 40, "calls of each client in a window")
	flag.Uint64Var(&s.seed, "seed", 1, "same seed, same calls")
	flag.StringVar(&s.report, "report", ".", "folder for the histories with a violation")
	flag.Parse()
	s.clients = min(s.clients, clientsMax)
	verdict, err := run(s)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(verdict)
	if verdict.violations > 0 || verdict.windows == 0 {
		os.Exit(1)
	}
}

// A verdict is what came of a run.
type verdict struct {
	operations, windows, violations, unknown uint64
}

func (v *verdict) String() string {
	return fmt.Sprintf("%d operations in %d histories, %d violations, %d not decided",
		v.operations, v.windows, v.violations, v.unknown)
}

// A history is a window with what its clients were told.
type history struct {
	window     *window
	operations []porcupine.Operation
}

func run(s settings) (*verdict, error) {
	admin, err := dial(s.address)
	if err != nil {
		return nil, err
	}
	defer admin.close()
	if err := appendOnly(admin, s.appendonly); err != nil {
		return nil, err
	}
	v := &verdict{}
	histories := make(chan history, checkers)
	var checking sync.WaitGroup
	for range checkers {
		checking.Go(func() {
			for one := range histories {
				v.check(one, s.report)
			}
		})
	}
	err = produce(s, admin, v, histories)
	close(histories)
	checking.Wait()
	return v, err
}

// produce runs window after window.
func produce(s settings, admin *connection, v *verdict, histories chan<- history) error {
	begin := time.Now()
	var clients []*client
	defer func() { closeAll(clients) }()
	for number := uint64(0); v.operations < s.operations; number++ {
		if s.seconds > 0 && time.Since(begin).Seconds() > s.seconds {
			return nil
		}
		if number%windowsPerConnection == 0 {
			closeAll(clients)
			var err error
			if clients, err = connect(s); err != nil {
				return err
			}
		}
		if number%windowsPerReload == windowsPerReload-1 {
			if err := reload(admin, s.appendonly); err != nil {
				return err
			}
		}
		if _, err := admin.do("FLUSHALL"); err != nil {
			return err
		}
		w := newWindow(number)
		operations, err := w.run(s, clients)
		if err != nil {
			return fmt.Errorf("window %d: %w", number, err)
		}
		v.operations += uint64(len(operations))
		v.windows++
		histories <- history{w, operations}
	}
	return nil
}

// run lets all clients work and returns when the last has ended.
func (w *window) run(s settings, clients []*client) ([]porcupine.Operation, error) {
	var working sync.WaitGroup
	if w.clients > 0 {
		clients = clients[:min(w.clients, len(clients))]
	}
	errs := make([]error, len(clients))
	for i, c := range clients {
		c.operations = nil
		c.generator = &generator{window: w, random: rand.New(rand.NewPCG(s.seed, w.number<<8|uint64(i))), client: i, turns: make([]int, w.groups)}
		if w.whole && i%3 == 2 {
			c.generator.base = keysInBase
		}
		working.Go(func() { errs[i] = c.work(s.steps) })
	}
	working.Wait()
	var all []porcupine.Operation
	for i, c := range clients {
		if errs[i] != nil {
			return nil, fmt.Errorf("client %d: %w", i, errs[i])
		}
		all = append(all, c.operations...)
	}
	return all, nil
}

// check decides one history. A violation is written down as a page to look at.
func (v *verdict) check(one history, folder string) {
	result, info := porcupine.CheckOperationsVerbose(model, one.operations, decisionTimeMax)
	switch result {
	case porcupine.Unknown:
		atomic.AddUint64(&v.unknown, 1)
		fmt.Printf("window %d: no decision in %v\n", one.window.number, decisionTimeMax)
	case porcupine.Illegal:
		atomic.AddUint64(&v.violations, 1)
		path := fmt.Sprintf("%s/violation-%d.html", folder, one.window.number)
		fmt.Printf("window %d: no order explains what the clients were told: %s\n", one.window.number, path)
		if err := porcupine.VisualizePath(model, info, path); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
}

// appendOnly switches the append-only file on and waits until it is there.
func appendOnly(admin *connection, policy string) error {
	if policy == "no" {
		return nil
	}
	for _, words := range [][]string{{"CONFIG", "SET", "appendfsync", policy}, {"CONFIG", "SET", "appendonly", "yes"}} {
		if r, err := admin.do(words...); err != nil || r.kind == '-' {
			return fmt.Errorf("%v: %v %v", words, r, err)
		}
	}
	return rewritten(admin)
}

// rewritten waits until no rewrite runs.
func rewritten(admin *connection) error {
	for begin := time.Now(); time.Since(begin) < patience; time.Sleep(10 * time.Millisecond) {
		info, err := admin.do("INFO", "persistence")
		if err != nil {
			return err
		}
		if strings.Contains(info.text, "aof_rewrite_in_progress:0") && strings.Contains(info.text, "aof_rewrite_scheduled:0") {
			return nil
		}
	}
	return fmt.Errorf("the append-only file is being rewritten for more than %v", patience)
}

// reload reads the append-only file back: it must hold what the memory holds. Then a rewrite
// begins, so that the next windows run beside it.
func reload(admin *connection, policy string) error {
	if policy == "no" {
		_, err := admin.do("BGSAVE")
		return err
	}
	if err := rewritten(admin); err != nil {
		return err
	}
	var digests [2]reply
	for i := range digests {
		var err error
		if digests[i], err = admin.do("DEBUG", "DIGEST"); err != nil {
			return err
		}
		if i == 0 {
			if r, err := admin.do("DEBUG", "LOADAOF"); err != nil || r.kind == '-' {
				return fmt.Errorf("DEBUG LOADAOF: %v %v", r, err)
			}
		}
	}
	if !digests[0].equal(digests[1]) {
		return fmt.Errorf("the append-only file holds other keys than the memory: %v, not %v", digests[1], digests[0])
	}
	_, err := admin.do("BGREWRITEAOF")
	return err
}

const (
	checkers             = 2
	windowsPerConnection = 50
	windowsPerReload     = 100
	decisionTimeMax      = 10 * time.Second
)
