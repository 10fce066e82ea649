// Package clients has the tests that go-redis makes of a running Tidewire.
package clients

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// How long a test waits for what should come at once.
const patience = 20 * time.Second

var keyCount int

// forEachProtocol runs a test with RESP2 and with RESP3, each with names of its own.
func forEachProtocol(t *testing.T, test func(t *testing.T, ctx context.Context, client *redis.Client, key func(string) string)) {
	for _, protocol := range []int{2, 3} {
		t.Run(fmt.Sprintf("RESP%d", protocol), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			client := connect(t, protocol)
			keyCount++
			prefix := fmt.Sprintf("go:%d", keyCount)
			test(t, ctx, client, func(name string) string { return prefix + ":" + name })
		})
	}
}

func connect(t *testing.T, protocol int) *redis.Client {
	port := os.Getenv("TIDEWIRE_PORT")
	if port == "" {
		port = "6379"
	}
	client := redis.NewClient(&redis.Options{
		Addr:      "127.0.0.1:" + port,
		Protocol:  protocol,
		TLSConfig: tlsConfig(t),
	})
	t.Cleanup(func() { client.Close() })
	return client
}

// tlsConfig returns what a TLS connection needs to know; nil without TLS.
func tlsConfig(t *testing.T) *tls.Config {
	file := os.Getenv("TIDEWIRE_TLS_CA")
	if file == "" {
		return nil
	}
	authority, err := os.ReadFile(file)
	roots := x509.NewCertPool()
	if err != nil || !roots.AppendCertsFromPEM(authority) {
		t.Fatalf("%s: no certificate: %v", file, err)
	}
	return &tls.Config{RootCAs: roots, ServerName: "localhost"}
}

// same compares what a command gave with what it should give.
func same[T any](t *testing.T, what string, expected T) func(T, error) {
	t.Helper()
	return func(actual T, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if fmt.Sprint(actual) != fmt.Sprint(expected) {
			t.Fatalf("%s: %v, not %v", what, actual, expected)
		}
	}
}

func TestStrings(t *testing.T) {
	forEachProtocol(t, func(t *testing.T, ctx context.Context, client *redis.Client, key func(string) string) {
		same(t, "SET", "OK")(client.Set(ctx, key("a"), "hello", time.Hour).Result())
		same(t, "GET", "hello")(client.Get(ctx, key("a")).Result())
		same(t, "SETNX", false)(client.SetNX(ctx, key("a"), "x", 0).Result())
		same(t, "TTL", time.Hour)(client.TTL(ctx, key("a")).Result())
		same(t, "INCRBY", int64(42))(client.IncrBy(ctx, key("n"), 42).Result())
		same(t, "INCRBYFLOAT", 42.5)(client.IncrByFloat(ctx, key("n"), 0.5).Result())
		same(t, "MGET", []any{"hello", nil})(client.MGet(ctx, key("a"), key("none")).Result())
		same(t, "SETBIT", int64(0))(client.SetBit(ctx, key("b"), 9, 1).Result())
		same(t, "BITPOS", int64(9))(client.BitPos(ctx, key("b"), 1).Result())
		if err := client.Get(ctx, key("none")).Err(); !errors.Is(err, redis.Nil) {
			t.Fatalf("GET of nothing: %v", err)
		}
		if err := client.LPush(ctx, key("a"), "x").Err(); !redis.HasErrorPrefix(err, "WRONGTYPE") {
			t.Fatalf("LPUSH to a string: %v", err)
		}
	})
}

func TestHashes(t *testing.T) {
	forEachProtocol(t, func(t *testing.T, ctx context.Context, client *redis.Client, key func(string) string) {
		type record struct {
			Name  string `redis:"name"`
			Count int    `redis:"count"`
		}
		same(t, "HSET", int64(2))(client.HSet(ctx, key("h"), record{"tide", 3}).Result())
		var back record
		if err := client.HGetAll(ctx, key("h")).Scan(&back); err != nil || back != (record{"tide", 3}) {
			t.Fatalf("HGETALL: %v, %v", back, err)
		}
		same(t, "HINCRBY", int64(4))(client.HIncrBy(ctx, key("h"), "count", 1).Result())
		same(t, "HEXPIRE", []int64{1, -2})(client.HExpire(ctx, key("h"), time.Hour, "name", "none").Result())
		same(t, "HTTL", []int64{3600})(client.HTTL(ctx, key("h"), "name").Result())
		same(t, "HDEL", int64(2))(client.HDel(ctx, key("h"), "name", "count").Result())
		same(t, "EXISTS", int64(0))(client.Exists(ctx, key("h")).Result())
	})
}

func TestLists(t *testing.T) {
	forEachProtocol(t, func(t *testing.T, ctx context.Context, client *redis.Client, key func(string) string) {
		same(t, "RPUSH", int64(4))(client.RPush(ctx, key("l"), "a", "b", "c", "d").Result())
		same(t, "LRANGE", []string{"b", "c"})(client.LRange(ctx, key("l"), 1, 2).Result())
		same(t, "LMOVE", "d")(client.LMove(ctx, key("l"), key("m"), "right", "left").Result())
		same(t, "LSET", "OK")(client.LSet(ctx, key("l"), -1, "z").Result())
		same(t, "LPOP", []string{"a", "b", "z"})(client.LPopCount(ctx, key("l"), 9).Result())
		name, elements, err := client.LMPop(ctx, "left", 1, key("l"), key("m")).Result()
		if err != nil || name != key("m") || !slices.Equal(elements, []string{"d"}) {
			t.Fatalf("LMPOP: %v %v %v", name, elements, err)
		}
	})
}

func TestSetsAndSortedSets(t *testing.T) {
	forEachProtocol(t, func(t *testing.T, ctx context.Context, client *redis.Client, key func(string) string) {
		same(t, "SADD", int64(3))(client.SAdd(ctx, key("s"), 1, 2, 3).Result())
		same(t, "SADD", int64(2))(client.SAdd(ctx, key("t"), 3, "x").Result())
		same(t, "SINTER", []string{"3"})(client.SInter(ctx, key("s"), key("t")).Result())
		same(t, "SDIFFSTORE", int64(2))(client.SDiffStore(ctx, key("u"), key("s"), key("t")).Result())
		same(t, "SMISMEMBER", []bool{true, false})(client.SMIsMember(ctx, key("u"), 1, 3).Result())
		members := []redis.Z{{Score: 1, Member: "a"}, {Score: 2.5, Member: "b"}, {Score: 9, Member: "c"}}
		same(t, "ZADD", int64(3))(client.ZAdd(ctx, key("z"), members...).Result())
		same(t, "ZRANGE", members)(client.ZRangeWithScores(ctx, key("z"), 0, -1).Result())
		same(t, "ZSCORE", 2.5)(client.ZScore(ctx, key("z"), "b").Result())
		same(t, "ZINCRBY", 3.5)(client.ZIncrBy(ctx, key("z"), 2.5, "a").Result())
		same(t, "ZRANGE BYSCORE", []string{"b", "a"})(client.ZRangeArgs(ctx, redis.ZRangeArgs{
			Key: key("z"), Start: "(1", Stop: "4", ByScore: true,
		}).Result())
		same(t, "ZPOPMAX", members[2:])(client.ZPopMax(ctx, key("z")).Result())
		union := redis.ZStore{Keys: []string{key("z"), key("s")}, Aggregate: "MAX"}
		same(t, "ZUNIONSTORE", int64(5))(client.ZUnionStore(ctx, key("v"), &union).Result())
	})
}

func TestPlacesAndEstimates(t *testing.T) {
	forEachProtocol(t, func(t *testing.T, ctx context.Context, client *redis.Client, key func(string) string) {
		palermo := redis.GeoLocation{Name: "Palermo", Longitude: 13.361389, Latitude: 38.115556}
		catania := redis.GeoLocation{Name: "Catania", Longitude: 15.087269, Latitude: 37.502669}
		same(t, "GEOADD", int64(2))(client.GeoAdd(ctx, key("g"), &palermo, &catania).Result())
		same(t, "GEODIST", 166.2742)(client.GeoDist(ctx, key("g"), "Palermo", "Catania", "km").Result())
		query := redis.GeoSearchQuery{
			Longitude: 15, Latitude: 37, Radius: 200, RadiusUnit: "km", Sort: "ASC",
		}
		same(t, "GEOSEARCH", []string{"Catania", "Palermo"})(client.GeoSearch(ctx, key("g"), &query).Result())
		same(t, "PFADD", int64(1))(client.PFAdd(ctx, key("p"), "a", "b").Result())
		same(t, "PFADD", int64(1))(client.PFAdd(ctx, key("q"), "b", "c").Result())
		same(t, "PFMERGE", "OK")(client.PFMerge(ctx, key("r"), key("p"), key("q")).Result())
		same(t, "PFCOUNT", int64(3))(client.PFCount(ctx, key("r")).Result())
	})
}

func TestStreams(t *testing.T) {
	forEachProtocol(t, func(t *testing.T, ctx context.Context, client *redis.Client, key func(string) string) {
		for id := 1; id <= 3; id++ {
			arguments := redis.XAddArgs{
				Stream: key("x"), ID: fmt.Sprintf("%d-0", id), Values: []any{"n", id},
			}
			same(t, "XADD", arguments.ID)(client.XAdd(ctx, &arguments).Result())
		}
		same(t, "XLEN", int64(3))(client.XLen(ctx, key("x")).Result())
		same(t, "XGROUP CREATE", "OK")(client.XGroupCreate(ctx, key("x"), "g", "0").Result())
		read := redis.XReadGroupArgs{Group: "g", Consumer: "me", Streams: []string{key("x"), ">"}, Count: 2}
		streams, err := client.XReadGroup(ctx, &read).Result()
		if err != nil || len(streams) != 1 || len(streams[0].Messages) != 2 {
			t.Fatalf("XREADGROUP: %v, %v", streams, err)
		}
		same(t, "XACK", int64(1))(client.XAck(ctx, key("x"), "g", "1-0").Result())
		pending, err := client.XPending(ctx, key("x"), "g").Result()
		if err != nil || pending.Count != 1 || pending.Lower != "2-0" || pending.Consumers["me"] != 1 {
			t.Fatalf("XPENDING: %v, %v", pending, err)
		}
		groups, err := client.XInfoGroups(ctx, key("x")).Result()
		if err != nil || groups[0].Lag != 1 || groups[0].EntriesRead != 2 {
			t.Fatalf("XINFO GROUPS: %v, %v", groups, err)
		}
		full, err := client.XInfoStreamFull(ctx, key("x"), 0).Result()
		if err != nil || full.LastGeneratedID != "3-0" || len(full.Entries) != 3 {
			t.Fatalf("XINFO STREAM FULL: %v, %v", full, err)
		}
		same(t, "XTRIM", int64(2))(client.XTrimMaxLen(ctx, key("x"), 1).Result())
	})
}

func TestTransactions(t *testing.T) {
	forEachProtocol(t, func(t *testing.T, ctx context.Context, client *redis.Client, key func(string) string) {
		var counted *redis.IntCmd
		_, err := client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.Set(ctx, key("a"), 1, 0)
			counted = pipe.Incr(ctx, key("a"))
			return nil
		})
		if err != nil || counted.Val() != 2 {
			t.Fatalf("MULTI: %v, %v", counted, err)
		}
		err = client.Watch(ctx, func(tx *redis.Tx) error {
			client.Incr(ctx, key("a"))
			_, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
				pipe.Set(ctx, key("a"), "mine", 0)
				return nil
			})
			return err
		}, key("a"))
		if !errors.Is(err, redis.TxFailedErr) {
			t.Fatalf("WATCH: %v", err)
		}
		same(t, "GET", "3")(client.Get(ctx, key("a")).Result())
	})
}

func TestBlocking(t *testing.T) {
	forEachProtocol(t, func(t *testing.T, ctx context.Context, client *redis.Client, key func(string) string) {
		popped := make(chan []string, 1)
		go func() {
			popped <- client.BLPop(ctx, patience, key("none"), key("l")).Val()
		}()
		waitForBlocked(t, ctx, client)
		same(t, "RPUSH", int64(1))(client.RPush(ctx, key("l"), "x").Result())
		if got := <-popped; !slices.Equal(got, []string{key("l"), "x"}) {
			t.Fatalf("BLPOP: %v", got)
		}
		read := make(chan []redis.XStream, 1)
		go func() {
			arguments := redis.XReadArgs{Streams: []string{key("x"), "$"}, Block: patience}
			read <- client.XRead(ctx, &arguments).Val()
		}()
		waitForBlocked(t, ctx, client)
		same(t, "XADD", "7-0")(client.XAdd(ctx, &redis.XAddArgs{
			Stream: key("x"), ID: "7-0", Values: []any{"a", "b"},
		}).Result())
		if got := <-read; len(got) != 1 || got[0].Messages[0].ID != "7-0" {
			t.Fatalf("XREAD: %v", got)
		}
		if err := client.BZPopMin(ctx, time.Second, key("none")).Err(); !errors.Is(err, redis.Nil) {
			t.Fatalf("BZPOPMIN: %v", err)
		}
	})
}

// waitForBlocked waits until a client waits for a key.
func waitForBlocked(t *testing.T, ctx context.Context, client *redis.Client) {
	for ctx.Err() == nil {
		if client.InfoMap(ctx, "clients").Item("Clients", "blocked_clients") == "1" {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatal("nobody waits")
}

func TestSubscriptions(t *testing.T) {
	forEachProtocol(t, func(t *testing.T, ctx context.Context, client *redis.Client, key func(string) string) {
		subscriber := client.Subscribe(ctx, key("c"))
		defer subscriber.Close()
		if err := subscriber.PSubscribe(ctx, key("p*")); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := subscriber.Receive(ctx); err != nil {
				t.Fatal(err)
			}
		}
		same(t, "PUBLISH", int64(1))(client.Publish(ctx, key("c"), "one").Result())
		same(t, "PUBLISH", int64(1))(client.Publish(ctx, key("p1"), "two").Result())
		for _, expected := range []redis.Message{
			{Channel: key("c"), Payload: "one"},
			{Channel: key("p1"), Pattern: key("p*"), Payload: "two"},
		} {
			message, err := subscriber.ReceiveMessage(ctx)
			if err != nil || fmt.Sprint(*message) != fmt.Sprint(expected) {
				t.Fatalf("%v, %v, not %v", message, err, expected)
			}
		}
		sharded := client.SSubscribe(ctx, key("s"))
		defer sharded.Close()
		if _, err := sharded.Receive(ctx); err != nil {
			t.Fatal(err)
		}
		same(t, "SPUBLISH", int64(1))(client.SPublish(ctx, key("s"), "three").Result())
		message, err := sharded.ReceiveMessage(ctx)
		if err != nil || message.Payload != "three" {
			t.Fatalf("%v, %v", message, err)
		}
	})
}

func TestPipelinesAndScans(t *testing.T) {
	forEachProtocol(t, func(t *testing.T, ctx context.Context, client *redis.Client, key func(string) string) {
		_, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for number := range 1000 {
				pipe.Set(ctx, key(fmt.Sprintf("k%d", number)), number, 0)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		names := client.Scan(ctx, 0, key("k*"), 100).Iterator()
		for names.Next(ctx) {
			seen[names.Val()] = true
		}
		if names.Err() != nil || len(seen) != 1000 {
			t.Fatalf("%d keys, %v", len(seen), names.Err())
		}
	})
}
