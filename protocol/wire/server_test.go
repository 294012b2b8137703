package wire

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"
)

// echo answers with the body.
var echo = HandlerFunc(func(_ context.Context, r *Request) Outcome {
	resp := r.NewResponse()
	resp.Append(func(dst []byte) []byte { return append(dst, r.Body...) })
	return Outcome{Response: resp}
})

func TestSmokeTCP(t *testing.T) {
	s := NewServer(Options{Handler: echo})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln, ListenerInfo{Name: "PLAINTEXT"}) }()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	msg := []byte{0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 7, 0xff, 0xff, 'h', 'i'}
	binary.BigEndian.PutUint32(msg, uint32(len(msg)-4))
	if _, err := c.Write(msg); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 10)
	if _, err := io.ReadFull(c, got); err != nil {
		t.Fatal(err)
	}
	if string(got) != "\x00\x00\x00\x06\x00\x00\x00\x07hi" {
		t.Fatalf("%q", got)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	if err := <-served; err != ErrServerClosed {
		t.Error(err)
	}
}
