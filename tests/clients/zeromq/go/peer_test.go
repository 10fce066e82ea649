package zeromq

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// peer is Tidewire's ZeroMQ sockets in a process of their own, driven a line at a time.
type peer struct {
	commands io.WriteCloser
	answers  *bufio.Reader
	count    int
}

func startPeer(t *testing.T) *peer {
	process := exec.Command(os.Getenv("TIDEWIRE_ZMQ_PEER"))
	process.Stderr = os.Stderr
	commands, err := process.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	answers, err := process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		commands.Close()
		process.Wait()
	})
	return &peer{commands: commands, answers: bufio.NewReader(answers)}
}

func (p *peer) ask(line string) (string, error) {
	if _, err := io.WriteString(p.commands, line+"\n"); err != nil {
		return "", err
	}
	answer, err := p.answers.ReadString('\n')
	if err != nil {
		return "", err
	}
	rest, isGood := strings.CutPrefix(strings.TrimSpace(answer), "ok")
	if !isGood {
		return "", fmt.Errorf("%s: %s", line[:min(len(line), 60)], answer)
	}
	return strings.TrimSpace(rest), nil
}

// ours is one of its sockets.
type ours struct {
	t    *testing.T
	peer *peer
	name string
}

func (p *peer) open(t *testing.T, kind string) *ours {
	p.count++
	socket := &ours{t: t, peer: p, name: fmt.Sprintf("s%d", p.count)}
	if _, err := p.ask("open " + socket.name + " " + kind); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.ask("close " + socket.name) })
	return socket
}

func (o *ours) must(command string, words ...string) string {
	o.t.Helper()
	given, err := o.peer.ask(strings.Join(append([]string{command, o.name}, words...), " "))
	if err != nil {
		o.t.Fatal(err)
	}
	return given
}

func (o *ours) set(option int, value []byte) {
	o.t.Helper()
	o.must("option", fmt.Sprint(option), hexOf(value))
}

func (o *ours) send(frames [][]byte) {
	o.t.Helper()
	words := make([]string, len(frames))
	for at, frame := range frames {
		words[at] = hexOf(frame)
	}
	o.must("send", words...)
}

func (o *ours) receive() [][]byte {
	o.t.Helper()
	var frames [][]byte
	for _, word := range strings.Split(o.must("receive"), " ") {
		frame, err := hex.DecodeString(strings.Trim(word, "-"))
		if err != nil {
			o.t.Fatal(err)
		}
		frames = append(frames, frame)
	}
	return frames
}

func hexOf(frame []byte) string {
	if len(frame) == 0 {
		return "-"
	}
	return hex.EncodeToString(frame)
}

func number(value int32) []byte {
	return binary.LittleEndian.AppendUint32(nil, uint32(value))
}
