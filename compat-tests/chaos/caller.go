package chaos

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
)

// preface is how a connection between controllers begins, instead of with a request.
var preface = []byte{0xfb, 'k', 'm'}

// maxName bounds what a caller may call itself.
const maxName = 1 << 10

// whoCalls reads the first bytes of a connection to find out whose it is: nodes name
// themselves there. It returns what it has read, which is the node's that is called.
//
//	controller  fb 6b 6d, version, kind; length (2) and name "3/directory-id"
//	request     size (4), API key (2) and version (2), correlation id (4); length (2) and client id "broker-3-…"
func whoCalls(conn io.Reader) (from int, read []byte, err error) {
	var seen bytes.Buffer
	in := io.TeeReader(conn, &seen)
	head := make([]byte, 5)
	if _, err := io.ReadFull(in, head); err != nil {
		return everybody, seen.Bytes(), err
	}
	format := "%d/"
	if !bytes.HasPrefix(head, preface) {
		format = "broker-%d-"
		if _, err := io.ReadFull(in, make([]byte, 7)); err != nil { // the rest before the client id
			return everybody, seen.Bytes(), err
		}
	}
	var size [2]byte
	if _, err := io.ReadFull(in, size[:]); err != nil {
		return everybody, seen.Bytes(), err
	}
	n := binary.BigEndian.Uint16(size[:])
	if n > maxName {
		return everybody, seen.Bytes(), nil // null, or a client's choice
	}
	name := make([]byte, n)
	if _, err := io.ReadFull(in, name); err != nil {
		return everybody, seen.Bytes(), err
	}
	if _, err := fmt.Sscanf(string(name), format, &from); err != nil {
		from = everybody
	}
	return from, seen.Bytes(), nil
}
