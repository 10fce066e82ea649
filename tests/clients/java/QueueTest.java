import io.lettuce.core.KeyScanCursor;
import io.lettuce.core.KeyValue;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.ScanArgs;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.TransactionResult;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.pubsub.RedisPubSubAdapter;
import io.lettuce.core.pubsub.StatefulRedisPubSubConnection;
import io.lettuce.core.support.caching.CacheAccessor;
import io.lettuce.core.support.caching.CacheFrontend;
import io.lettuce.core.support.caching.ClientSideCaching;
import io.lettuce.core.TrackingArgs;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.redisson.Redisson;
import org.redisson.api.RAtomicLong;
import org.redisson.api.RBatch;
import org.redisson.api.RBlockingQueue;
import org.redisson.api.RBucket;
import org.redisson.api.RDelayedQueue;
import org.redisson.api.RLock;
import org.redisson.api.RMapCache;
import org.redisson.api.RRateLimiter;
import org.redisson.api.RScheduledExecutorService;
import org.redisson.api.RSemaphore;
import org.redisson.api.RStream;
import org.redisson.api.RTopic;
import org.redisson.api.RTransaction;
import org.redisson.api.RateIntervalUnit;
import org.redisson.api.RateType;
import org.redisson.api.RedissonClient;
import org.redisson.api.TransactionOptions;
import org.redisson.api.WorkerOptions;
import org.redisson.api.stream.StreamAddArgs;
import org.redisson.api.stream.StreamCreateGroupArgs;
import org.redisson.api.stream.StreamReadGroupArgs;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;

/** Redisson and Lettuce against a running Tidewire: what their own guides begin with. */
public final class QueueTest {
  private interface Test {
    void run(String prefix) throws Exception;
  }

  private static final String ADDRESS =
      (Tls.prepare() ? "rediss" : "redis") + "://127.0.0.1:" + Integer.parseInt(System.getenv("TIDEWIRE_PORT"));
  private static final int PATIENCE_S = 30;

  private static RedissonClient redisson;
  private static RedisClient lettuce;

  public static void main(String[] arguments) {
    Config config = new Config();
    config.useSingleServer().setAddress(ADDRESS).setConnectionMinimumIdleSize(2);
    redisson = Redisson.create(config);
    lettuce = RedisClient.create(RedisURI.create(ADDRESS));
    Map<String, Test> tests = new TreeMap<>();
    tests.put("redisson-buckets", QueueTest::buckets);
    tests.put("redisson-locks", QueueTest::locks);
    tests.put("redisson-queues", QueueTest::queues);
    tests.put("redisson-maps", QueueTest::maps);
    tests.put("redisson-limits", QueueTest::limits);
    tests.put("redisson-topics", QueueTest::topics);
    tests.put("redisson-streams", QueueTest::streams);
    tests.put("redisson-executor", QueueTest::executor);
    tests.put("redisson-transactions", QueueTest::transactions);
    tests.put("lettuce-commands", QueueTest::commands);
    tests.put("lettuce-subscriptions", QueueTest::subscriptions);
    tests.put("lettuce-caching", QueueTest::caching);
    long process = ProcessHandle.current().pid();
    int failed = 0;
    int passed = 0;
    for (Map.Entry<String, Test> test : tests.entrySet()) {
      try {
        test.getValue().run("java:" + process + ":" + test.getKey() + ":");
        passed += 1;
        System.out.println("ok " + test.getKey());
      } catch (Throwable failure) {
        failed += 1;
        System.out.println("FAILED " + test.getKey());
        failure.printStackTrace(System.out);
      }
    }
    redisson.shutdown();
    lettuce.shutdown();
    System.out.println(passed + " passed, " + failed + " failed");
    System.exit(failed == 0 ? 0 : 1);
  }

  private static void same(Object expected, Object actual) {
    if (!Objects.equals(expected, actual)) {
      throw new AssertionError(actual + ", not " + expected);
    }
  }

  private static void buckets(String prefix) throws Exception {
    RBucket<String> bucket = redisson.getBucket(prefix + "bucket");
    bucket.set("value", java.time.Duration.ofMinutes(1));
    same("value", bucket.get());
    same(true, bucket.remainTimeToLive() > 0);
    same(true, bucket.compareAndSet("value", "other"));
    same(false, bucket.compareAndSet("value", "third"));
    same("other", bucket.getAndDelete());
    RAtomicLong number = redisson.getAtomicLong(prefix + "number");
    same(5L, number.addAndGet(5));
    same(true, number.compareAndSet(5, 7));
    RBatch batch = redisson.createBatch();
    for (int at = 0; at < 100; at += 1) {
      batch.getAtomicLong(prefix + "number").incrementAndGetAsync();
    }
    same(100, batch.execute().getResponses().size());
    same(107L, number.get());
  }

  private static void locks(String prefix) throws Exception {
    int[] shared = new int[1];
    List<Thread> threads = new ArrayList<>();
    for (int thread = 0; thread < 4; thread += 1) {
      threads.add(
          new Thread(
              () -> {
                for (int at = 0; at < 20; at += 1) {
                  RLock lock = redisson.getLock(prefix + "lock");
                  lock.lock();
                  try {
                    shared[0] += 1;
                  } finally {
                    lock.unlock();
                  }
                }
              }));
    }
    for (Thread thread : threads) thread.start();
    for (Thread thread : threads) thread.join();
    same(80, shared[0]);
    RLock fair = redisson.getFairLock(prefix + "fair");
    same(true, fair.tryLock(1, 10, TimeUnit.SECONDS));
    boolean[] taken = new boolean[1];
    Thread other = new Thread(() -> taken[0] = redisson.getFairLock(prefix + "fair").tryLock());
    other.start();
    other.join();
    same(false, taken[0]);
    same(1, fair.getHoldCount());
    fair.unlock();
    same(false, fair.isLocked());
    RSemaphore semaphore = redisson.getSemaphore(prefix + "semaphore");
    same(true, semaphore.trySetPermits(2));
    semaphore.acquire(2);
    same(false, semaphore.tryAcquire());
    semaphore.release();
    same(true, semaphore.tryAcquire(1, 1, TimeUnit.SECONDS));
  }

  private static void queues(String prefix) throws Exception {
    RBlockingQueue<String> queue = redisson.getBlockingQueue(prefix + "queue");
    BlockingQueue<String> taken = new LinkedBlockingQueue<>();
    Thread waiting =
        new Thread(
            () -> {
              try {
                taken.add(queue.poll(PATIENCE_S, TimeUnit.SECONDS));
              } catch (InterruptedException stopped) {
                Thread.currentThread().interrupt();
              }
            });
    waiting.start();
    queue.put("job");
    same("job", taken.poll(PATIENCE_S, TimeUnit.SECONDS));
    waiting.join();
    RDelayedQueue<String> delayed = redisson.getDelayedQueue(queue);
    delayed.offer("late", 300, TimeUnit.MILLISECONDS);
    delayed.offer("later", 600, TimeUnit.MILLISECONDS);
    same(2, delayed.size());
    same("late", queue.poll(PATIENCE_S, TimeUnit.SECONDS));
    same("later", queue.poll(PATIENCE_S, TimeUnit.SECONDS));
    delayed.destroy();
  }

  private static void maps(String prefix) throws Exception {
    RMapCache<String, Integer> cache = redisson.getMapCache(prefix + "cache");
    cache.put("lasting", 1);
    cache.put("brief", 2, 100, TimeUnit.MILLISECONDS);
    same(null, cache.putIfAbsent("third", 3));
    same(3, cache.putIfAbsent("third", 4));
    for (int attempt = 0; cache.containsKey("brief"); attempt += 1) {
      same(true, attempt < PATIENCE_S * 100);
      Thread.sleep(10);
    }
    same(Map.of("lasting", 1, "third", 3), cache.readAllMap());
    cache.destroy();
    same(true, redisson.getSet(prefix + "set").addAll(List.of("a", "b")));
    same(2.5, redisson.getScoredSortedSet(prefix + "sorted").addScore("member", 2.5));
    same(1L, redisson.getKeys().delete(prefix + "sorted"));
  }

  private static void limits(String prefix) {
    RRateLimiter limiter = redisson.getRateLimiter(prefix + "limiter");
    same(true, limiter.trySetRate(RateType.OVERALL, 3, 1, RateIntervalUnit.MINUTES));
    same(true, limiter.tryAcquire(2));
    same(1L, limiter.availablePermits());
    same(true, limiter.tryAcquire());
    same(false, limiter.tryAcquire());
    same(true, redisson.getBloomFilter(prefix + "bloom").tryInit(1_000, 0.01));
    same(true, redisson.getBloomFilter(prefix + "bloom").add("one"));
    same(true, redisson.getBloomFilter(prefix + "bloom").contains("one"));
    same(false, redisson.getBloomFilter(prefix + "bloom").contains("two"));
  }

  private static void topics(String prefix) throws Exception {
    RTopic topic = redisson.getTopic(prefix + "topic", StringCodec.INSTANCE);
    BlockingQueue<String> heard = new LinkedBlockingQueue<>();
    int number = topic.addListener(String.class, (channel, message) -> heard.add(message));
    same(1L, topic.publish("word"));
    same("word", heard.poll(PATIENCE_S, TimeUnit.SECONDS));
    topic.removeListener(number);
    same(0L, topic.publish("nobody"));
    CountDownLatch all = new CountDownLatch(50);
    redisson
        .getPatternTopic(prefix + "news.*", StringCodec.INSTANCE)
        .addListener(String.class, (pattern, channel, message) -> all.countDown());
    for (int at = 0; at < 50; at += 1) {
      redisson.getTopic(prefix + "news." + at, StringCodec.INSTANCE).publish("word");
    }
    same(true, all.await(PATIENCE_S, TimeUnit.SECONDS));
  }

  private static void streams(String prefix) {
    RStream<String, String> stream = redisson.getStream(prefix + "stream", StringCodec.INSTANCE);
    stream.createGroup(StreamCreateGroupArgs.name("group").makeStream());
    for (int at = 0; at < 3; at += 1) {
      stream.add(StreamAddArgs.entry("number", String.valueOf(at)));
    }
    var read = stream.readGroup("group", "one", StreamReadGroupArgs.neverDelivered().count(2));
    same(2, read.size());
    same(2L, stream.getPendingInfo("group").getTotal());
    same(2L, stream.ack("group", read.keySet().toArray(new org.redisson.api.StreamMessageId[0])));
    same(1, stream.readGroup("group", "two", StreamReadGroupArgs.neverDelivered()).size());
    same(3L, stream.size());
  }

  /** A task that is sent as bytes of its class. */
  public static final class Twice implements Callable<Integer>, java.io.Serializable {
    private final int number;

    public Twice(int number) {
      this.number = number;
    }

    @Override
    public Integer call() {
      return 2 * number;
    }
  }

  private static void executor(String prefix) throws Exception {
    RScheduledExecutorService executor = redisson.getExecutorService(prefix + "executor");
    executor.registerWorkers(WorkerOptions.defaults().workers(2));
    List<java.util.concurrent.Future<Integer>> results = new ArrayList<>();
    for (int number = 0; number < 20; number += 1) {
      results.add(executor.submit(new Twice(number)));
    }
    for (int number = 0; number < 20; number += 1) {
      same(2 * number, results.get(number).get(PATIENCE_S, TimeUnit.SECONDS));
    }
    var late = executor.schedule(new Twice(21), 200, TimeUnit.MILLISECONDS);
    same(42, late.get(PATIENCE_S, TimeUnit.SECONDS));
    executor.shutdown();
    same(true, executor.isShutdown());
    executor.delete();
  }

  private static void transactions(String prefix) {
    RTransaction transaction = redisson.createTransaction(TransactionOptions.defaults());
    transaction.getMap(prefix + "map").put("key", "value");
    transaction.getBucket(prefix + "one").set(1);
    same(false, redisson.getBucket(prefix + "one").isExists());
    transaction.commit();
    same("value", redisson.getMap(prefix + "map").get("key"));
    RTransaction dropped = redisson.createTransaction(TransactionOptions.defaults());
    dropped.getBucket(prefix + "one").set(2);
    dropped.rollback();
    same(1, redisson.getBucket(prefix + "one").get());
  }

  private static void commands(String prefix) throws Exception {
    try (StatefulRedisConnection<String, String> connection = lettuce.connect()) {
      RedisCommands<String, String> commands = connection.sync();
      same("OK", commands.set(prefix + "key", "value"));
      same(2L, commands.hset(prefix + "hash", Map.of("a", "1", "b", "2")));
      same(KeyValue.just("a", "1"), commands.hmget(prefix + "hash", "a").get(0));
      commands.multi();
      commands.incr(prefix + "number");
      commands.incr(prefix + "number");
      TransactionResult result = commands.exec();
      same(2L, result.get(1));
      String sha = commands.scriptLoad("return {KEYS[1], ARGV[1]}");
      List<String> reply =
          commands.evalsha(sha, ScriptOutputType.MULTI, new String[] {prefix + "key"}, "argument");
      same(List.of(prefix + "key", "argument"), reply);
      List<String> found = new ArrayList<>();
      KeyScanCursor<String> cursor = commands.scan(ScanArgs.Builder.matches(prefix + "*"));
      found.addAll(cursor.getKeys());
      while (!cursor.isFinished()) {
        cursor = commands.scan(cursor, ScanArgs.Builder.matches(prefix + "*"));
        found.addAll(cursor.getKeys());
      }
      found.sort(null);
      same(List.of(prefix + "hash", prefix + "key", prefix + "number"), found);
      var async = connection.async();
      connection.setAutoFlushCommands(false);
      List<io.lettuce.core.RedisFuture<Long>> futures = new ArrayList<>();
      for (int at = 0; at < 1_000; at += 1) futures.add(async.incr(prefix + "counter"));
      connection.flushCommands();
      connection.setAutoFlushCommands(true);
      same(1_000L, futures.get(999).get(PATIENCE_S, TimeUnit.SECONDS));
    }
  }

  private static void subscriptions(String prefix) throws Exception {
    BlockingQueue<String> heard = new LinkedBlockingQueue<>();
    try (StatefulRedisPubSubConnection<String, String> subscriber = lettuce.connectPubSub();
        StatefulRedisConnection<String, String> publisher = lettuce.connect()) {
      subscriber.addListener(
          new RedisPubSubAdapter<>() {
            @Override
            public void message(String channel, String message) {
              heard.add(message);
            }

            @Override
            public void message(String pattern, String channel, String message) {
              heard.add(pattern + message);
            }
          });
      subscriber.sync().subscribe(prefix + "channel");
      same(1L, publisher.sync().publish(prefix + "channel", "word"));
      same("word", heard.poll(PATIENCE_S, TimeUnit.SECONDS));
      subscriber.sync().psubscribe(prefix + "*");
      same(1L, publisher.sync().publish(prefix + "other", "word"));
      same(prefix + "*word", heard.poll(PATIENCE_S, TimeUnit.SECONDS));
      // RESP3 lets other commands through.
      same("PONG", subscriber.sync().ping());
    }
  }

  private static void caching(String prefix) throws Exception {
    Map<String, String> local = new ConcurrentHashMap<>();
    try (StatefulRedisConnection<String, String> reader = lettuce.connect();
        StatefulRedisConnection<String, String> writer = lettuce.connect()) {
      writer.sync().set(prefix + "key", "old");
      CacheFrontend<String, String> cache =
          ClientSideCaching.enable(
              CacheAccessor.forMap(local), reader, TrackingArgs.Builder.enabled());
      AtomicInteger attempts = new AtomicInteger();
      same("old", cache.get(prefix + "key"));
      same("old", local.get(prefix + "key"));
      writer.sync().set(prefix + "key", "new");
      while (!"new".equals(cache.get(prefix + "key"))) {
        same(true, attempts.incrementAndGet() < PATIENCE_S * 100);
        Thread.sleep(10);
      }
    }
  }
}
