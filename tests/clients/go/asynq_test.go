package clients

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
)

// jobs is what one test has of asynq: who hands tasks in, who works on them, and who looks.
type jobs struct {
	client    *asynq.Client
	inspector *asynq.Inspector
	database  asynq.RedisClientOpt
}

var jobDatabases = 0

// forEachJob runs a test in a database of its own: asynq's keys have fixed names.
func forEachJob(t *testing.T, name string, test func(t *testing.T, jobs *jobs)) {
	t.Run(name, func(t *testing.T) {
		port := os.Getenv("TIDEWIRE_PORT")
		if port == "" {
			port = "6379"
		}
		jobDatabases++
		options := asynq.RedisClientOpt{
			Addr: "127.0.0.1:" + port, DB: jobDatabases, TLSConfig: tlsConfig(t),
		}
		own := &jobs{asynq.NewClient(options), asynq.NewInspector(options), options}
		t.Cleanup(func() {
			own.client.Close()
			own.inspector.Close()
		})
		test(t, own)
	})
}

// work starts a server that hands every task to a function.
func (jobs *jobs) work(t *testing.T, config asynq.Config, work asynq.HandlerFunc) {
	t.Helper()
	config.LogLevel = asynq.FatalLevel
	config.TaskCheckInterval = 50 * time.Millisecond
	config.DelayedTaskCheckInterval = 50 * time.Millisecond
	config.ShutdownTimeout = time.Second
	server := asynq.NewServer(jobs.database, config)
	if err := server.Start(work); err != nil {
		t.Fatalf("no server: %v", err)
	}
	t.Cleanup(server.Shutdown)
}

func (jobs *jobs) hand(t *testing.T, kind string, content any, options ...asynq.Option) *asynq.TaskInfo {
	t.Helper()
	payload, _ := json.Marshal(content)
	info, err := jobs.client.Enqueue(asynq.NewTask(kind, payload), options...)
	if err != nil {
		t.Fatalf("%s: %v", kind, err)
	}
	return info
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !condition(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it never came true: %s", what)
		}
	}
}

// TestAsynq runs the scenarios of asynq's own guide.
func TestAsynq(t *testing.T) {
	forEachJob(t, "every task is done once", testEveryTaskOnce)
	forEachJob(t, "results are kept", testResults)
	forEachJob(t, "a failing task is tried again and archived", testRetries)
	forEachJob(t, "tasks wait for their time", testScheduled)
	forEachJob(t, "a task that is there already is refused", testUnique)
	forEachJob(t, "more important queues come first", testPriorities)
	forEachJob(t, "tasks of a group are handed over together", testGroups)
	forEachJob(t, "a queue is paused, inspected and emptied", testInspection)
	forEachJob(t, "a running task is cancelled from elsewhere", testCancellation)
}

func testEveryTaskOnce(t *testing.T, jobs *jobs) {
	const count = 200
	var lock sync.Mutex
	done := make(map[int]int)
	for number := range count {
		jobs.hand(t, "number", number)
	}
	jobs.work(t, asynq.Config{Concurrency: 8}, func(_ context.Context, task *asynq.Task) error {
		var number int
		if err := json.Unmarshal(task.Payload(), &number); err != nil {
			return err
		}
		lock.Lock()
		defer lock.Unlock()
		done[number]++
		return nil
	})
	eventually(t, "all are done", func() bool {
		lock.Lock()
		defer lock.Unlock()
		return len(done) == count
	})
	for number, times := range done {
		if times != 1 {
			t.Fatalf("task %d was done %d times", number, times)
		}
	}
	eventually(t, "none is left", func() bool {
		info, err := jobs.inspector.GetQueueInfo("default")
		return err == nil && info.Size == 0 && info.Processed == count && info.Failed == 0
	})
}

func testResults(t *testing.T, jobs *jobs) {
	jobs.work(t, asynq.Config{Concurrency: 1}, func(_ context.Context, task *asynq.Task) error {
		_, err := task.ResultWriter().Write([]byte("result of " + task.Type()))
		return err
	})
	info := jobs.hand(t, "question", nil, asynq.Retention(time.Hour))
	eventually(t, "the result is there", func() bool {
		found, err := jobs.inspector.GetTaskInfo("default", info.ID)
		return err == nil && found.State == asynq.TaskStateCompleted &&
			string(found.Result) == "result of question"
	})
}

func testRetries(t *testing.T, jobs *jobs) {
	config := asynq.Config{
		Concurrency:    2,
		RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return time.Millisecond },
	}
	jobs.work(t, config, func(context context.Context, task *asynq.Task) error {
		retried, _ := asynq.GetRetryCount(context)
		if task.Type() == "stubborn" && retried >= 2 {
			return nil
		}
		return fmt.Errorf("attempt %d", retried)
	})
	jobs.hand(t, "stubborn", nil, asynq.MaxRetry(5), asynq.Retention(time.Hour), asynq.TaskID("a"))
	jobs.hand(t, "hopeless", nil, asynq.MaxRetry(1), asynq.TaskID("b"))
	state := func(id string) asynq.TaskState {
		info, err := jobs.inspector.GetTaskInfo("default", id)
		if err != nil {
			return 0
		}
		return info.State
	}
	eventually(t, "one ends well", func() bool { return state("a") == asynq.TaskStateCompleted })
	eventually(t, "one is given up", func() bool { return state("b") == asynq.TaskStateArchived })
	info, err := jobs.inspector.GetTaskInfo("default", "b")
	if err != nil || info.LastErr != "attempt 1" || info.Retried != 1 {
		t.Fatalf("%+v, %v", info, err)
	}
}

func testScheduled(t *testing.T, jobs *jobs) {
	handed := time.Now()
	jobs.hand(t, "late", nil, asynq.ProcessIn(2*time.Second))
	jobs.hand(t, "never", nil, asynq.ProcessIn(time.Hour))
	list, err := jobs.inspector.ListScheduledTasks("default")
	if err != nil || len(list) != 2 || list[0].Type != "late" {
		t.Fatalf("%v, %v", list, err)
	}
	done := make(chan time.Time, 2)
	jobs.work(t, asynq.Config{Concurrency: 1}, func(context.Context, *asynq.Task) error {
		done <- time.Now()
		return nil
	})
	select {
	case when := <-done:
		// Its time is kept in whole seconds, rounded down: it comes after one second at least.
		if when.Sub(handed) < 900*time.Millisecond {
			t.Fatalf("after %v", when.Sub(handed))
		}
	case <-time.After(patience):
		t.Fatal("it never ran")
	}
}

func testUnique(t *testing.T, jobs *jobs) {
	task := asynq.NewTask("only", []byte("one"))
	if _, err := jobs.client.Enqueue(task, asynq.Unique(time.Hour)); err != nil {
		t.Fatal(err)
	}
	_, err := jobs.client.Enqueue(task, asynq.Unique(time.Hour))
	if !errors.Is(err, asynq.ErrDuplicateTask) {
		t.Fatalf("%v", err)
	}
	jobs.hand(t, "named", nil, asynq.TaskID("name"))
	_, err = jobs.client.Enqueue(task, asynq.TaskID("name"))
	if !errors.Is(err, asynq.ErrTaskIDConflict) {
		t.Fatalf("%v", err)
	}
}

func testPriorities(t *testing.T, jobs *jobs) {
	queues := []string{"low", "middle", "high"}
	for _, queue := range queues {
		for range 3 {
			jobs.hand(t, queue, nil, asynq.Queue(queue))
		}
	}
	done := make(chan string, 9)
	config := asynq.Config{
		Concurrency:    1,
		Queues:         map[string]int{"high": 3, "middle": 2, "low": 1},
		StrictPriority: true,
	}
	jobs.work(t, config, func(_ context.Context, task *asynq.Task) error {
		done <- task.Type()
		return nil
	})
	var order []string
	eventually(t, "all are done", func() bool {
		for len(done) > 0 {
			order = append(order, <-done)
		}
		return len(order) == 9
	})
	order = slices.Compact(order)
	if !slices.Equal(order, []string{"high", "middle", "low"}) {
		t.Fatalf("%v", order)
	}
}

func testGroups(t *testing.T, jobs *jobs) {
	for number := range 5 {
		jobs.hand(t, "part", number, asynq.Group("all"), asynq.Queue("grouped"))
	}
	sizes := make(chan int, 5)
	config := asynq.Config{
		Concurrency:      1,
		Queues:           map[string]int{"grouped": 1},
		GroupMaxSize:     5,
		GroupGracePeriod: time.Second,
		GroupAggregator: asynq.GroupAggregatorFunc(func(_ string, tasks []*asynq.Task) *asynq.Task {
			payload, _ := json.Marshal(len(tasks))
			return asynq.NewTask("whole", payload)
		}),
	}
	jobs.work(t, config, func(_ context.Context, task *asynq.Task) error {
		var size int
		err := json.Unmarshal(task.Payload(), &size)
		sizes <- size
		return err
	})
	select {
	case size := <-sizes:
		if size != 5 {
			t.Fatalf("%d tasks together", size)
		}
	case <-time.After(patience):
		t.Fatal("they were never handed over")
	}
}

func testInspection(t *testing.T, jobs *jobs) {
	for number := range 25 {
		jobs.hand(t, "idle", number)
	}
	if err := jobs.inspector.PauseQueue("default"); err != nil {
		t.Fatal(err)
	}
	info, err := jobs.inspector.GetQueueInfo("default")
	if err != nil || !info.Paused || info.Pending != 25 || info.MemoryUsage <= 0 {
		t.Fatalf("%+v, %v", info, err)
	}
	page, err := jobs.inspector.ListPendingTasks("default", asynq.PageSize(10), asynq.Page(3))
	if err != nil || len(page) != 5 {
		t.Fatalf("%v, %v", page, err)
	}
	same[int](t, "archive", 25)(jobs.inspector.ArchiveAllPendingTasks("default"))
	same[int](t, "run again", 25)(jobs.inspector.RunAllArchivedTasks("default"))
	same[int](t, "delete", 25)(jobs.inspector.DeleteAllPendingTasks("default"))
	if err := jobs.inspector.DeleteQueue("default", false); err != nil {
		t.Fatal(err)
	}
	names, err := jobs.inspector.Queues()
	if err != nil || len(names) != 0 {
		t.Fatalf("%v, %v", names, err)
	}
}

func testCancellation(t *testing.T, jobs *jobs) {
	ended := make(chan error, 1)
	started := make(chan struct{}, 1)
	jobs.work(t, asynq.Config{Concurrency: 1}, func(context context.Context, _ *asynq.Task) error {
		started <- struct{}{}
		<-context.Done()
		ended <- context.Err()
		return context.Err()
	})
	info := jobs.hand(t, "endless", nil, asynq.MaxRetry(0))
	<-started
	// The word goes through a channel that the server subscribes to.
	eventually(t, "it ends", func() bool {
		if err := jobs.inspector.CancelProcessing(info.ID); err != nil {
			t.Fatal(err)
		}
		return len(ended) > 0
	})
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Fatalf("%v", err)
	}
}
