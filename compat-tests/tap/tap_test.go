package tap

import (
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/compat-tests/harness"
)

// echo answers each frame with its correlation id, until the test ends.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for {
					frame, err := next(conn)
					if err != nil {
						return
					}
					if _, err := conn.Write(append([]byte{0, 0, 0, 4}, frame[8:12]...)); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

// ask sends a request, and returns what the answer says or that there is none.
func ask(t *testing.T, conn net.Conn, id int32, client string) (uint32, error) {
	t.Helper()
	req := kmsg.NewPtrMetadataRequest()
	req.SetVersion(4)
	frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID(client)).AppendRequest(nil, req, id)
	if _, err := conn.Write(frame); err != nil {
		t.Fatal(err)
	}
	answer, err := next(conn)
	if err != nil {
		return 0, err
	}
	return correlation(answer[4:]), nil
}

func TestReadsAlongAndLosesOneAnswer(t *testing.T) {
	p := Start(t, fmt.Sprintf("127.0.0.1:%d", harness.FreePort(t)))
	p.Forward(echo(t))
	p.LoseAnswer(func(r Request) bool { return r.Key == int16(kmsg.Metadata) && r.correlation == 2 })
	for _, lost := range []bool{true, false} {
		conn, err := net.Dial("tcp", p.Addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if id, err := ask(t, conn, 1, "client"); id != 1 || err != nil {
			t.Errorf("the first answer: %d, %v", id, err)
		}
		id, err := ask(t, conn, 2, "client")
		if lost && !errors.Is(err, io.EOF) || !lost && (id != 2 || err != nil) {
			t.Errorf("the second answer (lost: %v): %d, %v", lost, id, err)
		}
		if lost {
			continue
		}
		if id, err := ask(t, conn, 3, Judge); id != 3 || err != nil {
			t.Errorf("the judge's answer: %d, %v", id, err)
		}
	}
	seen := p.Seen(0)
	if got, want := fmt.Sprint(seen), "[Metadata v4 Metadata v4 Metadata v4 Metadata v4]"; got != want {
		t.Errorf("seen: %s, want %s", got, want)
	}
	for _, r := range seen {
		if r.Body == nil || r.Client != "client" {
			t.Errorf("%s of %q: %v", r, r.Client, r.Body)
		}
	}
}
