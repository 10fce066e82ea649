package clients

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// How long a test waits for a failover, which may be tried again.
const failoverPatience = 90 * time.Second

// TestFailover lets FailoverClient write while Redis's Sentinels change its master: first as planned,
// then because it is killed.
func TestFailover(t *testing.T) {
	hub, sentinel := os.Getenv("TIDEWIRE_BINARY"), os.Getenv("REDIS_SENTINEL")
	if hub == "" || sentinel == "" {
		t.Skip("TIDEWIRE_BINARY and REDIS_SENTINEL name the programs, which cargo xtask test finds")
	}
	if os.Getenv("TIDEWIRE_TLS_CA") != "" {
		t.Skip("its hubs have no TLS")
	}
	for _, protocol := range []int{2, 3} {
		t.Run(fmt.Sprintf("RESP%d", protocol), func(t *testing.T) {
			failOver(t, hub, sentinel, protocol)
		})
	}
}

func failOver(t *testing.T, hub, sentinel string, protocol int) {
	ctx, cancel := context.WithTimeout(context.Background(), 4*failoverPatience)
	defer cancel()
	ports := freePorts(t, 5)
	startHub(t, hub, ports[0])
	second := startHub(t, hub, ports[1])
	direct := []*redis.Client{clientOf(t, ports[0]), clientOf(t, ports[1])}
	for _, client := range direct {
		waitFor(t, "a hub answers", func() bool { return client.Ping(ctx).Err() == nil })
	}
	same(t, "REPLICAOF", "OK")(direct[1].SlaveOf(ctx, "127.0.0.1", fmt.Sprint(ports[0])).Result())
	addresses := make([]string, 0, 3)
	for _, port := range ports[2:] {
		startSentinel(t, sentinel, port, ports[0])
		addresses = append(addresses, fmt.Sprintf("127.0.0.1:%d", port))
	}
	asked := redis.NewSentinelClient(&redis.Options{Addr: addresses[0]})
	t.Cleanup(func() { asked.Close() })
	waitFor(t, "a sentinel knows the others and the replica", func() bool {
		known, err := asked.Master(ctx, "m").Result()
		return err == nil && known["num-other-sentinels"] == "2" && known["num-slaves"] == "1"
	})
	client := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: "m", SentinelAddrs: addresses, Protocol: protocol,
	})
	t.Cleanup(func() { client.Close() })

	number := 0
	write := func(count int) {
		for range count {
			number++
			waitFor(t, "a write", func() bool {
				return client.Set(ctx, fmt.Sprintf("written %d", number), number, 0).Err() == nil
			})
		}
	}
	isMaster := func(one *redis.Client) func() bool {
		return func() bool {
			role, err := one.Do(ctx, "ROLE").Slice()
			return err == nil && role[0] == "master"
		}
	}
	write(100)
	waitFor(t, "a failover begins", func() bool { return asked.Failover(ctx, "m").Err() == nil })
	waitFor(t, "the second is the master", isMaster(direct[1]))
	write(100)
	waitFor(t, "sentinels name it", func() bool {
		address, err := asked.GetMasterAddrByName(ctx, "m").Result()
		return err == nil && address[1] == fmt.Sprint(ports[1])
	})
	waitFor(t, "the first follows", func() bool {
		role, err := direct[0].Do(ctx, "ROLE").Slice()
		return err == nil && role[0] == "slave" && role[3] == "connected"
	})
	same(t, "DBSIZE", int64(number))(direct[1].DBSize(ctx).Result())
	waitFor(t, "the first has everything", func() bool {
		size, err := direct[0].DBSize(ctx).Result()
		return err == nil && size == int64(number)
	})

	if err := second.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	write(100)
	if !isMaster(direct[0])() {
		t.Fatal("the first is not the master again")
	}
}

func startHub(t *testing.T, program string, port int) *exec.Cmd {
	free := "tcp://127.0.0.1:0"
	return start(t, exec.Command(
		program, "serve", "--resp", fmt.Sprintf("127.0.0.1:%d", port), "--feed", "127.0.0.1:0",
		"--zmq-pub", free, "--zmq-pull", free, "--zmq-router", free,
	))
}

func startSentinel(t *testing.T, program string, port, master int) {
	conf := filepath.Join(t.TempDir(), "sentinel.conf")
	text := fmt.Sprintf("port %d\ndir %s\nsentinel monitor m 127.0.0.1 %d 2\n"+
		"sentinel down-after-milliseconds m 2000\nsentinel failover-timeout m 10000\n",
		port, filepath.Dir(conf), master)
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	start(t, exec.Command(program, conf, "--sentinel"))
}

// start begins a program that is killed when the test ends.
func start(t *testing.T, command *exec.Cmd) *exec.Cmd {
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		command.Process.Kill()
		command.Wait()
	})
	return command
}

func clientOf(t *testing.T, port int) *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: fmt.Sprintf("127.0.0.1:%d", port)})
	t.Cleanup(func() { client.Close() })
	return client
}

func freePorts(t *testing.T, count int) []int {
	ports := make([]int, 0, count)
	for range count {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		ports = append(ports, listener.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

// waitFor asks until the answer is yes.
func waitFor(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for begin := time.Now(); !condition(); time.Sleep(10 * time.Millisecond) {
		if time.Since(begin) > failoverPatience {
			t.Fatalf("there was not in time: %s", what)
		}
	}
}
