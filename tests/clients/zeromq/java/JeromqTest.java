import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import org.zeromq.SocketType;
import org.zeromq.ZAuth;
import org.zeromq.ZContext;
import org.zeromq.ZFrame;
import org.zeromq.ZMQ;
import org.zeromq.ZMsg;

/** Tidewire's ZeroMQ sockets and JeroMQ's: pairs and mechanisms, each way; and a hub's ports. */
public final class JeromqTest {
  private static final int PATIENCE_MS = 20_000;
  // One of a hundred of JeroMQ's connections says nothing once it stands, until this time ends it
  // and it connects anew (https://github.com/zeromq/jeromq/pull/1022).
  private static final int HANDSHAKE_MS = 1_000;
  private static final int[] SIZES = {0, 1, 255, 256, 8_192, 300_000};

  // Ours first.
  private static final String[][] PAIRS = {
    {"PAIR", "PAIR"},
    {"PUSH", "PULL"},
    {"PULL", "PUSH"},
    {"REQ", "REP"},
    {"REP", "REQ"},
    {"DEALER", "DEALER"},
    {"REQ", "ROUTER"},
    {"ROUTER", "REQ"},
    {"DEALER", "ROUTER"},
    {"ROUTER", "DEALER"},
    {"DEALER", "REP"},
    {"REP", "DEALER"},
    {"XPUB", "SUB"},
    {"XPUB", "XSUB"},
    {"SUB", "XPUB"},
    {"XSUB", "XPUB"},
  };

  /** Sends and receives whole messages. */
  private interface End {
    void send(List<byte[]> frames) throws Exception;

    List<byte[]> receive() throws Exception;
  }

  public static void main(String[] arguments) throws Exception {
    int failed = 0;
    int passed = 0;
    try (ZContext context = new ZContext();
        ZAuth judge = new ZAuth(context)) {
      context.setLinger(0);
      Path passwords = Files.createTempFile("tidewire", ".passwords");
      Files.writeString(passwords, "user=secret\n");
      judge.configurePlain("*", passwords.toString());
      judge.configureCurve(ZAuth.CURVE_ALLOW_ANY);
      judge.replies(false);
      Peer peer = new Peer();
      peer.ask("allow user secret");
      for (String mechanism : List.of("NULL", "PLAIN", "CURVE")) {
        for (boolean oursBinds : List.of(true, false)) {
          for (String[] kinds : PAIRS) {
            // As libzmq's, its REQ drops replies as the server of a mechanism.
            if (!mechanism.equals("NULL") && kinds[1].equals("REQ") && !oursBinds) continue;
            String name =
                String.join(" and ", kinds)
                    + " with "
                    + mechanism
                    + (oursBinds ? ", ours binds" : ", theirs binds");
            try {
              pair(context, peer, kinds, mechanism, oursBinds);
              passed += 1;
              System.out.println("ok " + name);
            } catch (Throwable failure) {
              failed += 1;
              System.out.println("FAILED " + name);
              failure.printStackTrace(System.out);
            }
          }
        }
      }
      try {
        hub(context);
        passed += 1;
      } catch (Throwable failure) {
        failed += 1;
        System.out.println("FAILED the ports of a hub");
        failure.printStackTrace(System.out);
      }
      peer.stop();
    }
    System.out.println(passed + " passed, " + failed + " failed");
    System.exit(failed == 0 ? 0 : 1);
  }

  private static void pair(
      ZContext context, Peer peer, String[] kinds, String mechanism, boolean oursBinds)
      throws Exception {
    Ours ours = peer.open(kinds[0]);
    ZMQ.Socket theirs = context.createSocket(SocketType.type(typeNumber(kinds[1])));
    theirs.setReceiveTimeOut(PATIENCE_MS);
    theirs.setSendTimeOut(PATIENCE_MS);
    theirs.setHandshakeIvl(HANDSHAKE_MS);
    peer.meanwhile = theirs::getEvents;
    if (List.of("REQ", "REP", "DEALER", "ROUTER").contains(kinds[0])) {
      ours.set(5, bytes("ours"));
      theirs.setIdentity(bytes("theirs"));
    }
    secure(mechanism, ours, theirs, oursBinds);
    if (oursBinds) {
      theirs.connect(ours.ask("bind", "tcp://127.0.0.1:*"));
    } else {
      int port = theirs.bindToRandomPort("tcp://127.0.0.1");
      ours.ask("connect", "tcp://127.0.0.1:" + port);
    }
    End end =
        new End() {
          @Override
          public void send(List<byte[]> frames) {
            ZMsg message = new ZMsg();
            frames.forEach(message::add);
            same(true, message.send(theirs));
          }

          @Override
          public List<byte[]> receive() {
            ZMsg message = ZMsg.recvMsg(theirs);
            if (message == null) throw new AssertionError("nothing came");
            return message.stream().map(ZFrame::getData).toList();
          }
        };
    if (kinds[1].equals("SUB")) theirs.subscribe("a");
    if (kinds[0].equals("SUB")) ours.set(6, bytes("a"));
    converse(kinds, ours, end);
    peer.meanwhile = () -> {};
    context.destroySocket(theirs);
    ours.ask("close");
  }

  private static void secure(String mechanism, Ours ours, ZMQ.Socket theirs, boolean oursBinds)
      throws Exception {
    if (mechanism.equals("PLAIN")) {
      if (oursBinds) {
        ours.set(44, number(1));
        theirs.setPlainUsername("user");
        theirs.setPlainPassword("secret");
      } else {
        theirs.setPlainServer(true);
        ours.set(45, bytes("user"));
        ours.set(46, bytes("secret"));
      }
    }
    if (mechanism.equals("CURVE")) {
      ZMQ.Curve.KeyPair server = ZMQ.Curve.generateKeyPair();
      ZMQ.Curve.KeyPair client = ZMQ.Curve.generateKeyPair();
      if (oursBinds) {
        ours.set(47, number(1));
        ours.set(49, bytes(server.secretKey));
        theirs.setCurveServerKey(ZMQ.Curve.z85Decode(server.publicKey));
        theirs.setCurvePublicKey(ZMQ.Curve.z85Decode(client.publicKey));
        theirs.setCurveSecretKey(ZMQ.Curve.z85Decode(client.secretKey));
      } else {
        theirs.setCurveServer(true);
        theirs.setCurvePublicKey(ZMQ.Curve.z85Decode(server.publicKey));
        theirs.setCurveSecretKey(ZMQ.Curve.z85Decode(server.secretKey));
        ours.set(50, bytes(server.publicKey));
        ours.set(48, bytes(client.publicKey));
        ours.set(49, bytes(client.secretKey));
      }
    }
  }

  private static void converse(String[] kinds, End ours, End theirs) throws Exception {
    if (kinds[0].endsWith("PUB") || kinds[1].endsWith("PUB")) {
      publish(kinds, ours, theirs);
      return;
    }
    boolean oursAsks =
        List.of("REQ", "DEALER", "PUSH", "PAIR").contains(kinds[0])
            && !List.of("REQ", "PUSH").contains(kinds[1]);
    End asker = oursAsks ? ours : theirs;
    End answerer = oursAsks ? theirs : ours;
    String asking = oursAsks ? kinds[0] : kinds[1];
    String answering = oursAsks ? kinds[1] : kinds[0];
    List<byte[]> head = asking.equals("DEALER") && answering.equals("REP") ? List.of(bytes("")) : List.of();
    for (List<byte[]> message : messages()) {
      asker.send(joined(head, message));
      List<byte[]> received = answerer.receive();
      int envelope = answering.equals("ROUTER") ? (asking.equals("REQ") ? 2 : 1) : 0;
      if (envelope > 0) same(oursAsks ? "ours" : "theirs", new String(received.get(0)));
      equal(message, received.subList(envelope, received.size()));
      if (asking.equals("PUSH")) continue;
      answerer.send(received);
      equal(joined(head, message), asker.receive());
    }
  }

  private static void publish(String[] kinds, End ours, End theirs) throws Exception {
    boolean oursPublishes = kinds[0].endsWith("PUB");
    End publisher = oursPublishes ? ours : theirs;
    End subscriber = oursPublishes ? theirs : ours;
    if (kinds[oursPublishes ? 1 : 0].equals("XSUB")) {
      subscriber.send(List.of(new byte[] {1, 'a'}));
    }
    equal(List.of(new byte[] {1, 'a'}), publisher.receive());
    for (List<byte[]> message : messages()) {
      publisher.send(joined(List.of(bytes("b: not asked for")), message));
      List<byte[]> wanted = joined(List.of(bytes("a topic")), message);
      publisher.send(wanted);
      equal(wanted, subscriber.receive());
    }
  }

  private static void hub(ZContext context) throws Exception {
    ZMQ.Socket sub = connect(context, SocketType.SUB, "PUB");
    ZMQ.Socket push = connect(context, SocketType.PUSH, "PULL");
    ZMQ.Socket req = connect(context, SocketType.REQ, "ROUTER");
    ZMsg.newStringMsg("live:java", "1").send(push);
    String value = null;
    while (!"1".equals(value)) {
      ZMsg.newStringMsg("GET", "live:java").send(req);
      value = ZMsg.recvMsg(req).getLast().getString(StandardCharsets.UTF_8);
    }
    sub.subscribe("live:java");
    same("[live:java, 1]", texts(ZMsg.recvMsg(sub)));
    ZMsg.newStringMsg("live:java", "2").send(push);
    same("[live:java, 2]", texts(ZMsg.recvMsg(sub)));
    ZMsg.newStringMsg("SNAPSHOT live:java").send(req);
    same("[OK, , live:java, 2]", texts(ZMsg.recvMsg(req)));
  }

  private static ZMQ.Socket connect(ZContext context, SocketType kind, String port) {
    ZMQ.Socket socket = context.createSocket(kind);
    socket.setReceiveTimeOut(PATIENCE_MS);
    socket.setHandshakeIvl(HANDSHAKE_MS);
    socket.connect(System.getenv("TIDEWIRE_ZMQ_" + port));
    return socket;
  }

  private static String texts(ZMsg message) {
    return message.stream().map(frame -> frame.getString(StandardCharsets.UTF_8)).toList().toString();
  }

  private static List<List<byte[]>> messages() {
    List<List<byte[]>> messages = new ArrayList<>();
    for (int size : SIZES) messages.add(List.of(new byte[size]));
    messages.add(List.of(bytes("first"), bytes(""), new byte[70_000], bytes("last")));
    return messages;
  }

  private static List<byte[]> joined(List<byte[]> head, List<byte[]> message) {
    List<byte[]> all = new ArrayList<>(head);
    all.addAll(message);
    return all;
  }

  private static void equal(List<byte[]> expected, List<byte[]> actual) {
    boolean is = expected.size() == actual.size();
    for (int at = 0; is && at < expected.size(); at += 1) {
      is = Arrays.equals(expected.get(at), actual.get(at));
    }
    if (!is) throw new AssertionError("another message: " + actual.size() + " frames");
  }

  private static void same(Object expected, Object actual) {
    if (!expected.equals(actual)) throw new AssertionError(actual + ", not " + expected);
  }

  private static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }

  private static byte[] number(int value) {
    return new byte[] {(byte) value, 0, 0, 0};
  }

  private static int typeNumber(String kind) {
    return SocketType.valueOf(kind).type();
  }

  /** Tidewire's sockets in a process of their own, driven a line at a time. */
  private static final class Peer {
    private final Process process;
    private final OutputStream commands;
    private final BufferedReader answers;
    private int count = 0;

    /** JeroMQ's SUB says what it wants to a new peer only while the program is in a call. */
    Runnable meanwhile = () -> {};

    Peer() throws Exception {
      process =
          new ProcessBuilder(System.getenv("TIDEWIRE_ZMQ_PEER"))
              .redirectError(ProcessBuilder.Redirect.INHERIT)
              .start();
      commands = process.getOutputStream();
      answers = new BufferedReader(new InputStreamReader(process.getInputStream()));
    }

    String ask(String line) throws Exception {
      commands.write(bytes(line + "\n"));
      commands.flush();
      for (; !answers.ready() && process.isAlive(); Thread.sleep(1)) meanwhile.run();
      String answer = answers.readLine();
      if (answer == null || !answer.startsWith("ok")) throw new AssertionError(answer);
      return answer.substring(2).strip();
    }

    Ours open(String kind) throws Exception {
      count += 1;
      ask("open s" + count + " " + kind);
      return new Ours(this, "s" + count);
    }

    void stop() throws Exception {
      commands.close();
      process.waitFor();
    }
  }

  /** One of them. */
  private record Ours(Peer peer, String name) implements End {
    String ask(String command, String... words) throws Exception {
      return peer.ask(String.join(" ", command, name, String.join(" ", words)));
    }

    void set(int option, byte[] value) throws Exception {
      ask("option", Integer.toString(option), hex(value));
    }

    @Override
    public void send(List<byte[]> frames) throws Exception {
      ask("send", frames.stream().map(Ours::hex).toArray(String[]::new));
    }

    @Override
    public List<byte[]> receive() throws Exception {
      List<byte[]> frames = new ArrayList<>();
      for (String word : ask("receive").split(" ")) {
        frames.add(HexFormat.of().parseHex(word.equals("-") ? "" : word));
      }
      return frames;
    }

    private static String hex(byte[] frame) {
      return frame.length == 0 ? "-" : HexFormat.of().formatHex(frame);
    }
  }
}
