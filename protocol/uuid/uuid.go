package uuid

import (
	"encoding/base64"
	"fmt"
	"io"
)

// UUID identifies a topic, a log directory, a broker incarnation or a cluster.
type UUID [16]byte

// Zero is Kafka's ZERO_UUID: "no id".
var Zero UUID

// Directory ids with a meaning of their own (Kafka's DirectoryId).
var (
	DirMigrating  = UUID{}
	DirUnassigned = UUID{15: 1}
	DirLost       = UUID{15: 2}
)

// New draws a random (version 4) id whose text does not begin with a dash, as Kafka
// does so that the text is safe on a command line.
func New(rand io.Reader) (UUID, error) {
	for {
		var u UUID
		if _, err := io.ReadFull(rand, u[:]); err != nil {
			return Zero, fmt.Errorf("draw uuid: %w", err)
		}
		u[6] = u[6]&0x0f | 0x40
		u[8] = u[8]&0x3f | 0x80
		if u.String()[0] != '-' {
			return u, nil
		}
	}
}

// String is the 22-character text form.
func (u UUID) String() string { return base64.RawURLEncoding.EncodeToString(u[:]) }

// IsZero reports whether u is Zero.
func (u UUID) IsZero() bool { return u == Zero }

// Parse reads the text form.
func Parse(s string) (UUID, error) {
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(b) != len(UUID{}) {
		return Zero, fmt.Errorf("uuid %q: want 22 characters of base64url", s)
	}
	return UUID(b), nil
}
