package conform

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// timeWindow is how far a time may be from a known one to be taken for it.
const timeWindow = 25 * time.Minute

// symbols replaces what differs between two correct brokers by names that don't.
// Whatever is not known by another name is numbered in the order of its appearance.
type symbols struct {
	base      int64 // R.T(0), Unix milliseconds
	prefix    string
	clusterID string
	nodes     []int32           // the cluster's node ids, ascending
	addrs     map[string]string // host, and host:port
	listeners map[int32]string  // host:port of the nodes
	processes Nodes
	uuids     map[[16]byte]string
	ids       map[string]int               // how many ids have been called by a name
	seen      map[string]map[string]string // kind → value → symbol
	blind     bool                         // nothing is numbered: only known values have symbols
}

func newSymbols(start time.Time, prefix string, t *Target) *symbols {
	return &symbols{
		base:   start.Add(-time.Hour).UnixMilli(),
		prefix: prefix, clusterID: t.clusterID, nodes: t.nodes, addrs: t.addrs, listeners: t.listeners, processes: t.processes,
		uuids: map[[16]byte]string{}, ids: map[string]int{}, seen: map[string]map[string]string{},
	}
}

// numbered is the symbol of a value among those of its kind.
func (s *symbols) numbered(kind, value string) string {
	of := s.seen[kind]
	if s.blind {
		return cmp.Or(of[value], kind)
	}
	if of == nil {
		of = map[string]string{}
		s.seen[kind] = of
	}
	if of[value] == "" {
		of[value] = kind + ":" + strconv.Itoa(len(of)+1)
	}
	return of[value]
}

// nameID is the symbol of an id of a topic called name: "id:name", and "id:name'2" for
// the second topic of that name.
func (s *symbols) nameID(name string) string {
	s.ids[name]++
	if n := s.ids[name]; n > 1 {
		return fmt.Sprintf("id:%s'%d", name, n)
	}
	return "id:" + name
}

func (s *symbols) uuid(id [16]byte) string {
	if id == [16]byte{} {
		return "0"
	}
	if name, ok := s.uuids[id]; ok {
		return name
	}
	return s.numbered("uuid", string(id[:]))
}

func (s *symbols) node(id int32) string {
	if i := slices.Index(s.nodes, id); i >= 0 {
		return fmt.Sprintf("node:%d", i+1)
	}
	return strconv.Itoa(int(id))
}

// port is "port" for one that a node advertises, and tells of which where there are
// several.
func (s *symbols) port(v int64) string {
	number := strconv.FormatInt(v, 10)
	for id, addr := range s.listeners {
		if len(s.nodes) > 1 && strings.HasSuffix(addr, ":"+number) {
			return "port-of-" + s.node(id)
		}
		if s.processes != nil && strings.HasSuffix(s.processes.Controller(id), ":"+number) {
			return "controller-of-" + s.node(id)
		}
	}
	for addr := range s.addrs {
		if strings.HasSuffix(addr, ":"+number) {
			return "port"
		}
	}
	return number
}

// integer is any number of 64 bits: a time if it is near one that the run knows.
func (s *symbols) integer(v int64) string {
	window := timeWindow.Milliseconds()
	if d := v - s.base; -window < d && d < window {
		return fmt.Sprintf("T%+d", d)
	}
	if d := v - s.base - time.Hour.Milliseconds(); -window < d && d < window {
		return "now"
	}
	return strconv.FormatInt(v, 10)
}

var (
	uuidText   = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	plainToken = regexp.MustCompile(`^[!-<>-~]+$`) // printable, without space and =
)

// text is a string of an answer. Long ones are shortened to their ends and a checksum.
func (s *symbols) text(v string) string {
	if v == "" {
		return `""`
	}
	if v == s.clusterID {
		return "cluster"
	}
	v = strings.ReplaceAll(v, s.prefix, "$")
	v = uuidText.ReplaceAllStringFunc(v, func(id string) string { return s.numbered("uuid", id) })
	if name, ok := s.addrs[v]; ok {
		return name
	}
	for addr, name := range s.addrs { // a host alone may be any word
		if name == hostPort {
			v = strings.ReplaceAll(v, addr, name)
		}
	}
	if len(v) > 120 {
		v = fmt.Sprintf("%s…%s (%d bytes, %s)", strings.ToValidUTF8(v[:20], "?"), strings.ToValidUTF8(v[len(v)-8:], "?"), len(v), checksum(v))
	}
	return token(v)
}

const hostPort = "host:port"

// token is a value as transcripts hold it: one word, or quoted.
func token(v string) string {
	if plainToken.MatchString(v) && v[0] != '"' {
		return v
	}
	return strconv.Quote(v)
}
