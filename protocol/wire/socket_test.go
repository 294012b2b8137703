package wire

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/klamm-mq/klamm/protocol/wire/countconn"
)

// fileRegion is a piece of a file.
type fileRegion struct {
	file     *os.File
	pos      int64
	len      int
	released atomic.Int32
	reads    atomic.Int32
}

func (f *fileRegion) Len() int                { return f.len }
func (f *fileRegion) File() (*os.File, int64) { return f.file, f.pos }
func (f *fileRegion) Release()                { f.released.Add(1) }
func (f *fileRegion) ReadAt(p []byte, off int64) (int, error) {
	f.reads.Add(1)
	return f.file.ReadAt(p, f.pos+off)
}

// randomFile makes a file of n bytes.
func randomFile(t testing.TB, n int) (*os.File, []byte) {
	t.Helper()
	data := make([]byte, n)
	_, _ = rand.Read(data)
	name := filepath.Join(t.TempDir(), "segment")
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	return file, data
}

// socketRig is a server on a real socket.
type socketRig struct {
	*rig
	addr   string
	counts *countconn.Counts
}

func newSocketRig(t testing.TB, o Options) *socketRig {
	t.Helper()
	r := newRig(t, o)
	inner, err := Listen(t.Context(), "127.0.0.1:0", ListenOptions{SendBufferBytes: 64 << 10, Backlog: 1000})
	if err != nil {
		t.Fatal(err)
	}
	ln := countconn.Listen(inner)
	r.serve(ln, ListenerInfo{Name: "SOCKET"})
	return &socketRig{rig: r, addr: inner.Addr().String(), counts: &ln.Counts}
}

func (r *socketRig) connect() net.Conn {
	r.t.Helper()
	conn, err := net.Dial("tcp", r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func mustWrite(t testing.TB, w io.Writer, p []byte) {
	t.Helper()
	if _, err := w.Write(p); err != nil {
		t.Fatal(err)
	}
}

func mustAnswer(t testing.TB, r io.Reader, want string) {
	t.Helper()
	a, err := readAnswer(r)
	if err != nil || a.body != want {
		t.Fatalf("answer of %d bytes, %v, want %d", len(a.body), err, len(want))
	}
}

// pieces answers with a skeleton around pieces of a file, as a fetch of several
// partitions does.
func pieces(regions ...*fileRegion) Handler {
	return HandlerFunc(func(_ context.Context, r *Request) Outcome {
		resp := respond(r, "head")
		for _, region := range regions {
			resp.AddRegion(region)
			resp.Append(func(dst []byte) []byte { return append(dst, "between"...) })
		}
		return Outcome{Response: resp}
	})
}

func TestSendfile(t *testing.T) {
	file, data := randomFile(t, 8<<20)
	regions := []*fileRegion{
		{file: file, pos: 0, len: 4 << 20},
		{file: file, pos: 1234567, len: sendfileMin},
		{file: file, pos: 99, len: sendfileMin - 1}, // copied
		{file: file, pos: 7, len: 0},
		{file: file, pos: 8<<20 - 100_000, len: 100_000},
	}
	want := "head"
	for _, region := range regions {
		want += string(data[region.pos:region.pos+int64(region.len)]) + "between"
	}
	r := newSocketRig(t, Options{Handler: pieces(regions...)})
	conn := r.connect()
	for range 3 {
		mustWrite(t, conn, metadata(1, ""))
		mustAnswer(t, conn, want)
	}
	for i, region := range regions {
		eventually(t, "every region is released", func() bool { return region.released.Load() == 3 })
		if region.released.Load() != 3 {
			t.Errorf("region %d", i)
		}
	}
}

// 64 MiB to a reader that takes them in small sips: every byte arrives, once.
func TestSendfileToSlowReader(t *testing.T) {
	const size = 64 << 20
	file, data := randomFile(t, size)
	region := &fileRegion{file: file, len: size}
	r := newSocketRig(t, Options{Handler: regionHandler(region)})
	conn := r.connect()
	_ = conn.(*net.TCPConn).SetReadBuffer(16 << 10)
	mustWrite(t, conn, metadata(1, ""))
	if _, err := io.ReadFull(conn, make([]byte, 8+4)); err != nil {
		t.Fatal(err)
	}
	got := sha256.New()
	if n, err := io.CopyBuffer(onlyWriter{got}, io.LimitReader(conn, size), make([]byte, 3000)); err != nil || n != size {
		t.Fatalf("%d bytes, %v", n, err)
	}
	if want := sha256.Sum256(data); !bytes.Equal(got.Sum(nil), want[:]) {
		t.Error("the bytes differ")
	}
	if r.counts.WriteWaits.Load() == 0 {
		t.Error("the socket was never full: the test shows nothing")
	}
	eventually(t, "the region is released", func() bool { return region.released.Load() == 1 })
}

// onlyWriter hides everything but Write from io.Copy.
type onlyWriter struct{ io.Writer }

// A reader that stalls in the middle of a file is closed, and the file released.
func TestSendfileToStalledReader(t *testing.T) {
	file, _ := randomFile(t, 32<<20)
	region := &fileRegion{file: file, len: 32 << 20}
	r := newSocketRig(t, Options{Handler: regionHandler(region), Limits: Limits{WriteStall: 100 * time.Millisecond}})
	conn := r.connect()
	mustWrite(t, conn, metadata(1, ""))
	eventually(t, "the region is released", func() bool { return region.released.Load() == 1 })
	if n, _ := io.Copy(io.Discard, conn); n >= 32<<20 {
		t.Error("everything was sent")
	}
}

// A file that was cut short under a region ends the connection: neither wrong bytes nor
// a wait for bytes that never come.
func TestSendfileOfTruncatedFile(t *testing.T) {
	file, data := randomFile(t, 1<<20)
	if err := os.Truncate(file.Name(), 300_000); err != nil {
		t.Fatal(err)
	}
	region := &fileRegion{file: file, len: 1 << 20}
	r := newSocketRig(t, Options{Handler: regionHandler(region)})
	conn := r.connect()
	mustWrite(t, conn, metadata(1, ""))
	got, err := io.ReadAll(conn)
	if err != nil || !bytes.Equal(got[12:], data[:300_000]) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	eventually(t, "the region is released", func() bool { return region.released.Load() == 1 })
}

// A file that is closed under a region, which a segment never does, is an error and not
// the bytes of whatever has the descriptor next.
func TestSendfileOfClosedFile(t *testing.T) {
	file, _ := randomFile(t, 1<<20)
	_ = file.Close()
	region := &fileRegion{file: file, len: 1 << 20}
	r := newSocketRig(t, Options{Handler: regionHandler(region)})
	conn := r.connect()
	mustWrite(t, conn, metadata(1, ""))
	if got, err := io.ReadAll(conn); err != nil || len(got) > 12 {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// Under TLS a region goes through pooled buffers; pipelining works as in the clear.
func TestTLS(t *testing.T) {
	file, data := randomFile(t, 1<<20)
	region := &fileRegion{file: file, pos: 5, len: 700_000}
	server, client := tlsConfigs(t)
	r := newRig(t, Options{Handler: HandlerFunc(func(ctx context.Context, r *Request) Outcome {
		if string(r.Body) == "file" {
			return regionHandler(region).Handle(ctx, r)
		}
		return echo(ctx, r)
	})})
	inner, err := Listen(t.Context(), "127.0.0.1:0", ListenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	counted := countconn.Listen(inner)
	r.serve(tls.NewListener(counted, server), ListenerInfo{Name: "SSL"})
	conn, err := tls.Dial("tcp", inner.Addr().String(), client)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	mustWrite(t, conn, metadata(1, "file"))
	mustAnswer(t, conn, "head"+string(data[5:700_005]))
	var batch []byte
	for range 16 {
		batch = append(batch, metadata(2, "a body of a few bytes")...)
	}
	before := counted.Counts.Writes.Load()
	mustWrite(t, conn, batch)
	for range 16 {
		mustAnswer(t, conn, "a body of a few bytes")
	}
	if got := counted.Counts.Writes.Load() - before; got > 2 {
		t.Errorf("16 pipelined requests under TLS: %d writes", got)
	}
}

// tlsConfigs makes a certificate for 127.0.0.1 and who trusts it.
func tlsConfigs(t *testing.T) (server, client *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(cert)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}, &tls.Config{RootCAs: roots}
}

// What a client sent before the server closes does not reset the answers before it.
func TestLingerSavesAnswers(t *testing.T) {
	r := newSocketRig(t, Options{Handler: HandlerFunc(func(ctx context.Context, r *Request) Outcome {
		if string(r.Body) == "close" {
			return Outcome{Close: errors.New("no")}
		}
		return echo(ctx, r)
	})})
	large := string(make([]byte, 200_000))
	for range 20 {
		conn := r.connect()
		all := append(metadata(1, large), metadata(2, "close")...)
		for range 50 {
			all = append(all, metadata(3, "unread")...)
		}
		go func() { _, _ = conn.Write(all) }()
		mustAnswer(t, conn, large)
		if _, err := readAnswer(conn); !errors.Is(err, io.EOF) {
			t.Fatalf("then %v, want the end of the stream", err)
		}
		_ = conn.Close()
	}
}

func TestListenOptions(t *testing.T) {
	ln, err := Listen(t.Context(), "127.0.0.1:0", ListenOptions{Backlog: 5, SendBufferBytes: 50_000, ReceiveBufferBytes: 60_000})
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if _, err := Listen(t.Context(), ln.Addr().String(), ListenOptions{}); err == nil {
		t.Error("two listeners on one address")
	}
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	conn, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	checkBuffers(t, conn.(*net.TCPConn), 50_000, 60_000)
}

// A client that has had no answer yet is reset when the server stops; one that has had one
// sees the end of the stream.
func TestStopResetsWhoHasAskedNothing(t *testing.T) {
	r := newRig(t, Options{Handler: echo})
	ln, err := Listen(t.Context(), "127.0.0.1:0", ListenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r.serve(ln, ListenerInfo{Name: "SOCKET"})
	connect := func() net.Conn {
		conn, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	asked, fresh := connect(), connect()
	mustWrite(t, asked, metadata(1, "something"))
	mustAnswer(t, asked, "something")
	for r.server.numConns() < 2 {
		runtime.Gosched()
	}
	if err := r.server.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := fresh.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("who has asked nothing gets %v, want a reset", err)
	}
	if _, err := asked.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("who has had an answer gets %v, want the end", err)
	}
}
