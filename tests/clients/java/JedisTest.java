import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.GeoCoordinate;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisPubSub;
import redis.clients.jedis.Pipeline;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.Response;
import redis.clients.jedis.StreamEntryID;
import redis.clients.jedis.Transaction;
import redis.clients.jedis.args.GeoUnit;
import redis.clients.jedis.args.ListDirection;
import redis.clients.jedis.args.SortedSetOption;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.params.ScanParams;
import redis.clients.jedis.params.SetParams;
import redis.clients.jedis.params.XAddParams;
import redis.clients.jedis.params.XReadGroupParams;
import redis.clients.jedis.params.XReadParams;
import redis.clients.jedis.resps.ScanResult;
import redis.clients.jedis.resps.StreamEntry;
import redis.clients.jedis.resps.Tuple;

/** Jedis against a running Tidewire, in both protocols. */
public final class JedisTest {
  private interface Test {
    void run(Jedis jedis, String prefix) throws Exception;
  }

  private static final HostAndPort SERVER =
      new HostAndPort("127.0.0.1", Integer.parseInt(System.getenv("TIDEWIRE_PORT")));
  private static final boolean IS_TLS = Tls.prepare();
  private static final int PATIENCE_S = 20;

  private static RedisProtocol protocol;

  public static void main(String[] arguments) {
    Map<String, Test> tests =
        Map.of(
            "strings", JedisTest::strings,
            "hashes", JedisTest::hashes,
            "lists", JedisTest::lists,
            "sets and sorted sets", JedisTest::sets,
            "places and estimates", JedisTest::places,
            "streams", JedisTest::streams,
            "transactions", JedisTest::transactions,
            "blocking", JedisTest::blocking,
            "subscriptions", JedisTest::subscriptions,
            "pipelines and scans", JedisTest::pipelines);
    int failed = 0;
    int passed = 0;
    for (RedisProtocol one : RedisProtocol.values()) {
      protocol = one;
      for (Map.Entry<String, Test> test : tests.entrySet()) {
        String name = test.getKey() + " with " + one;
        try (Jedis jedis = connect()) {
          test.getValue().run(jedis, "java:" + name.replace(' ', '-') + ":");
          passed += 1;
          System.out.println("ok " + name);
        } catch (Throwable failure) {
          failed += 1;
          System.out.println("FAILED " + name);
          failure.printStackTrace(System.out);
        }
      }
    }
    System.out.println(passed + " passed, " + failed + " failed");
    System.exit(failed == 0 ? 0 : 1);
  }

  private static Jedis connect() {
    return new Jedis(
        SERVER,
        DefaultJedisClientConfig.builder()
            .protocol(protocol)
            .ssl(IS_TLS)
            .timeoutMillis(PATIENCE_S * 1000)
            .blockingSocketTimeoutMillis(PATIENCE_S * 1000)
            .build());
  }

  private static void same(Object expected, Object actual) {
    if (!Objects.equals(expected, actual)) {
      throw new AssertionError(actual + ", not " + expected);
    }
  }

  private static void refused(String error, Runnable command) {
    try {
      command.run();
    } catch (JedisDataException refusal) {
      same(true, refusal.getMessage().startsWith(error));
      return;
    }
    throw new AssertionError("not refused with " + error);
  }

  private static void strings(Jedis jedis, String prefix) {
    String key = prefix + "a";
    same("OK", jedis.set(key, "hello", SetParams.setParams().nx().ex(1000)));
    same(null, jedis.set(key, "x", SetParams.setParams().nx()));
    same(true, jedis.ttl(key) > 990);
    same(11L, jedis.append(key, " world"));
    same("world", jedis.getrange(key, 6, -1));
    same(42L, jedis.incrBy(prefix + "n", 42));
    same(42.5, jedis.incrByFloat(prefix + "n", 0.5));
    same(java.util.Arrays.asList("hello world", null), jedis.mget(key, prefix + "none"));
    same(false, jedis.setbit(prefix + "b", 7, true));
    same(1L, jedis.bitcount(prefix + "b"));
    same(List.of(0L, 5L), jedis.bitfield(prefix + "f", "SET", "u8", "0", "5", "GET", "u8", "0"));
    refused("WRONGTYPE", () -> jedis.lpush(key, "x"));
    same(1L, jedis.del(key));
  }

  private static void hashes(Jedis jedis, String prefix) {
    String key = prefix + "h";
    same(2L, jedis.hset(key, Map.of("one", "1", "two", "2")));
    same(Map.of("one", "1", "two", "2"), jedis.hgetAll(key));
    same(11L, jedis.hincrBy(key, "one", 10));
    same(List.of(1L, -2L), jedis.hexpire(key, 1000, "two", "none"));
    same(true, jedis.httl(key, "two").get(0) > 990);
    same(List.of(1L), jedis.hpersist(key, "two"));
    same(2, jedis.hscan(key, "0").getResult().size());
    same(2L, jedis.hdel(key, "one", "two"));
    same(false, jedis.exists(key));
  }

  private static void lists(Jedis jedis, String prefix) {
    String key = prefix + "l";
    same(4L, jedis.rpush(key, "a", "b", "c", "d"));
    same(List.of("b", "c"), jedis.lrange(key, 1, 2));
    same("d", jedis.lmove(key, prefix + "m", ListDirection.RIGHT, ListDirection.LEFT));
    same(1L, jedis.lrem(key, 0, "b"));
    same(1L, jedis.lpos(key, "c"));
    same(List.of("a", "c"), jedis.lpop(key, 5));
    same(null, jedis.lpop(key));
  }

  private static void sets(Jedis jedis, String prefix) {
    String one = prefix + "s";
    String other = prefix + "t";
    same(3L, jedis.sadd(one, "1", "2", "3"));
    same(2L, jedis.sadd(other, "3", "x"));
    same(Set.of("3"), jedis.sinter(one, other));
    same(Set.of("1", "2"), jedis.sdiff(one, other));
    same(List.of(true, false), jedis.smismember(one, "1", "x"));
    String key = prefix + "z";
    same(3L, jedis.zadd(key, Map.of("a", 1.0, "b", 2.5, "c", 9.0)));
    same(List.of(new Tuple("a", 1.0), new Tuple("b", 2.5)), jedis.zrangeWithScores(key, 0, 1));
    same(4.0, jedis.zincrby(key, 3, "a"));
    same(List.of("b", "a"), jedis.zrangeByScore(key, "(2", "4"));
    same(1L, jedis.zrank(key, "a"));
    same(List.of(new Tuple("c", 9.0)), jedis.zmpop(SortedSetOption.MAX, key).getValue());
    same(4L, jedis.zunionstore(prefix + "u", key, other));
  }

  private static void places(Jedis jedis, String prefix) {
    String key = prefix + "g";
    Map<String, GeoCoordinate> places =
        Map.of(
            "Palermo", new GeoCoordinate(13.361389, 38.115556),
            "Catania", new GeoCoordinate(15.087269, 37.502669));
    same(2L, jedis.geoadd(key, places));
    same(166.2742, jedis.geodist(key, "Palermo", "Catania", GeoUnit.KM));
    GeoCoordinate from = new GeoCoordinate(15, 37);
    same("Catania", jedis.geosearch(key, from, 100, GeoUnit.KM).get(0).getMemberByString());
    same(1L, jedis.pfadd(prefix + "p", "a", "b", "c"));
    same(3L, jedis.pfcount(prefix + "p"));
  }

  private static void streams(Jedis jedis, String prefix) {
    String key = prefix + "x";
    StreamEntryID first = new StreamEntryID(1, 0);
    same(first, jedis.xadd(key, XAddParams.xAddParams().id(first), Map.of("a", "1")));
    StreamEntryID second = jedis.xadd(key, StreamEntryID.NEW_ENTRY, Map.of("a", "2"));
    same(2L, jedis.xlen(key));
    same(Map.of("a", "1"), jedis.xrange(key, "-", "+").get(0).getFields());
    same("OK", jedis.xgroupCreate(key, "g", new StreamEntryID(0, 0), false));
    List<Map.Entry<String, List<StreamEntry>>> read =
        jedis.xreadGroup(
            "g",
            "me",
            XReadGroupParams.xReadGroupParams().count(10),
            Map.of(key, StreamEntryID.XREADGROUP_UNDELIVERED_ENTRY));
    same(2, read.get(0).getValue().size());
    same(2L, jedis.xpending(key, "g").getTotal());
    same(2L, jedis.xack(key, "g", first, second));
    same(second, jedis.xinfoStream(key).getLastGeneratedId());
    same(0L, jedis.xinfoGroups(key).get(0).getPending());
    same(1L, jedis.xdel(key, first));
  }

  private static void transactions(Jedis jedis, String prefix) {
    String key = prefix + "a";
    Transaction transaction = jedis.multi();
    transaction.set(key, "1");
    Response<Long> counted = transaction.incr(key);
    same(List.of("OK", 2L), transaction.exec());
    same(2L, counted.get());
    try (Jedis other = connect()) {
      jedis.watch(key);
      other.incr(key);
      Transaction late = jedis.multi();
      late.del(key);
      same(null, late.exec());
    }
    same("3", jedis.get(key));
  }

  private static void blocking(Jedis jedis, String prefix) throws Exception {
    try (Jedis waiter = connect()) {
      CompletableFuture<List<String>> popped =
          CompletableFuture.supplyAsync(() -> waiter.brpop(PATIENCE_S, prefix + "no", prefix + "l"));
      waitForBlocked(jedis);
      same(1L, jedis.lpush(prefix + "l", "x"));
      same(List.of(prefix + "l", "x"), popped.get(PATIENCE_S, TimeUnit.SECONDS));
      CompletableFuture<List<Map.Entry<String, List<StreamEntry>>>> read =
          CompletableFuture.supplyAsync(
              () ->
                  waiter.xread(
                      XReadParams.xReadParams().block(PATIENCE_S * 1000),
                      Map.of(prefix + "x", new StreamEntryID(0, 0))));
      waitForBlocked(jedis);
      StreamEntryID added = jedis.xadd(prefix + "x", StreamEntryID.NEW_ENTRY, Map.of("a", "1"));
      same(added, read.get(PATIENCE_S, TimeUnit.SECONDS).get(0).getValue().get(0).getID());
      same(null, waiter.bzpopmin(0.02, prefix + "z"));
    }
  }

  private static void waitForBlocked(Jedis jedis) throws InterruptedException {
    for (int attempt = 0; attempt < 1000; attempt += 1) {
      if (jedis.info("clients").contains("blocked_clients:1\r\n")) {
        return;
      }
      Thread.sleep(5);
    }
    throw new AssertionError("nobody waits");
  }

  private static void subscriptions(Jedis jedis, String prefix) throws Exception {
    BlockingQueue<List<String>> heard = new LinkedBlockingQueue<>();
    JedisPubSub listener =
        new JedisPubSub() {
          @Override
          public void onSubscribe(String channel, int count) {
            heard.add(List.of("subscribed", channel));
          }

          @Override
          public void onMessage(String channel, String text) {
            heard.add(List.of(channel, text));
          }

          @Override
          public void onPSubscribe(String pattern, int count) {
            heard.add(List.of("subscribed", pattern));
          }

          @Override
          public void onPMessage(String pattern, String channel, String text) {
            heard.add(List.of(pattern, channel, text));
          }
        };
    try (Jedis subscriber = connect()) {
      Thread thread = new Thread(() -> subscriber.subscribe(listener, prefix + "c"));
      thread.start();
      same(List.of("subscribed", prefix + "c"), heard.poll(PATIENCE_S, TimeUnit.SECONDS));
      listener.psubscribe(prefix + "p*");
      same(List.of("subscribed", prefix + "p*"), heard.poll(PATIENCE_S, TimeUnit.SECONDS));
      same(1L, jedis.publish(prefix + "c", "one"));
      same(1L, jedis.publish(prefix + "p1", "two"));
      same(List.of(prefix + "c", "one"), heard.poll(PATIENCE_S, TimeUnit.SECONDS));
      List<String> matched = List.of(prefix + "p*", prefix + "p1", "two");
      same(matched, heard.poll(PATIENCE_S, TimeUnit.SECONDS));
      listener.unsubscribe();
      listener.punsubscribe();
      thread.join(PATIENCE_S * 1000L);
    }
  }

  private static void pipelines(Jedis jedis, String prefix) {
    List<Response<String>> replies = new ArrayList<>();
    Pipeline pipeline = jedis.pipelined();
    for (int number = 0; number < 1000; number += 1) {
      replies.add(pipeline.set(prefix + number, "x"));
    }
    pipeline.sync();
    for (Response<String> reply : replies) {
      same("OK", reply.get());
    }
    Set<String> seen = new HashSet<>();
    String cursor = ScanParams.SCAN_POINTER_START;
    do {
      ScanParams parameters = new ScanParams().match(prefix + "*").count(100);
      ScanResult<String> found = jedis.scan(cursor, parameters);
      seen.addAll(found.getResult());
      cursor = found.getCursor();
    } while (!cursor.equals(ScanParams.SCAN_POINTER_START));
    same(1000, seen.size());
  }
}
