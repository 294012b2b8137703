package configs

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/klamm-mq/klamm/protocol/uuid"
)

// Listener is a named address, NAME://host:port. Names are upper case.
type Listener struct {
	Name string
	Host string // "" is every address of this machine
	Port int    // 0 lets the system choose
}

// Address is host:port for package net.
func (l Listener) Address() string { return net.JoinHostPort(l.Host, strconv.Itoa(l.Port)) }

func (l Listener) String() string { return l.Name + "://" + l.Address() }

// Wildcard listeners say nothing about where clients reach them.
func (l Listener) Wildcard() bool {
	ip := net.ParseIP(l.Host)
	return l.Host == "" || ip != nil && ip.IsUnspecified()
}

// listenerForm is SocketServerConfigs.URI_PARSE_REGEXP, ended.
var listenerForm = regexp.MustCompile(`^(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:([0-9]+)$`)

func parseListener(text string) (Listener, error) {
	m := listenerForm.FindStringSubmatch(text)
	if m == nil || m[1] == "" {
		return Listener{}, fmt.Errorf("%s is not of the form NAME://host:port", text)
	}
	port, err := parsePort(m[3])
	if err != nil {
		return Listener{}, fmt.Errorf("%s: %w", text, err)
	}
	return Listener{Name: listenerName(m[1]), Host: m[2], Port: port}, nil
}

// listenerName is the form in which names are compared (ListenerName.normalised).
func listenerName(text string) string { return strings.ToUpper(text) }

func parsePort(text string) (int, error) {
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return 0, fmt.Errorf("port %s is not between 0 and 65535", text)
	}
	return int(port), nil
}

// parseListeners reads a list whose names differ; with distinctPorts so do its ports,
// except that an IPv4 and an IPv6 address may share one.
func parseListeners(list []string, distinctPorts bool) ([]Listener, error) {
	var all []Listener
	for _, text := range list {
		l, err := parseListener(text)
		if err != nil {
			return nil, err
		}
		for _, other := range all {
			switch {
			case l.Name == other.Name:
				return nil, fmt.Errorf("the name %s is used twice", l.Name)
			case distinctPorts && l.Port != 0 && l.Port == other.Port && !differentStacks(l.Host, other.Host):
				return nil, fmt.Errorf("port %d is used twice", l.Port)
			}
		}
		all = append(all, l)
	}
	return all, nil
}

func differentStacks(a, b string) bool {
	ipA, ipB := net.ParseIP(a), net.ParseIP(b)
	return ipA != nil && ipB != nil && (ipA.To4() == nil) != (ipB.To4() == nil)
}

func hasListener(listeners []Listener, name string) bool {
	return slices.ContainsFunc(listeners, func(l Listener) bool { return l.Name == name })
}

func listenerNames(listeners []Listener) string {
	names := make([]string, len(listeners))
	for i, l := range listeners {
		names[i] = l.Name
	}
	return strings.Join(names, ", ")
}

// parseProtocolMap reads NAME:PROTOCOL,….
func parseProtocolMap(text string) (map[string]string, error) {
	protocols := map[string]string{}
	for _, pair := range splitPairs(text) {
		name, protocol, ok := strings.Cut(pair, ":")
		name, protocol = listenerName(strings.TrimSpace(name)), strings.TrimSpace(protocol)
		switch {
		case !ok || name == "":
			return nil, fmt.Errorf("%q is not of the form NAME:PROTOCOL", pair)
		case !slices.Contains(securityProtocols(), protocol):
			return nil, fmt.Errorf("%s: protocol %q must be one of %s", name, protocol, strings.Join(securityProtocols(), ", "))
		}
		if _, twice := protocols[name]; twice {
			return nil, fmt.Errorf("%s is named twice", name)
		}
		protocols[name] = protocol
	}
	return protocols, nil
}

// splitPairs splits a list of a:b; like Kafka's it may end in commas.
func splitPairs(text string) []string {
	return splitList(strings.TrimRight(strings.TrimSpace(text), ", "))
}

func securityProtocols() []string { return []string{"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"} }

// Voter is a controller of a new cluster.
type Voter struct {
	ID   int32
	Host string
	Port int
}

// Address is host:port for package net.
func (v Voter) Address() string { return net.JoinHostPort(v.Host, strconv.Itoa(v.Port)) }

func parseVoters(list []string) ([]Voter, error) {
	var all []Voter
	for _, text := range list {
		id, address, ok := strings.Cut(text, "@")
		n, err := strconv.ParseInt(id, 10, 32)
		if !ok || err != nil || n < 0 {
			return nil, fmt.Errorf("%q is not of the form id@host:port", text)
		}
		host, port, err := splitHostPort(address)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", text, err)
		}
		if slices.ContainsFunc(all, func(v Voter) bool { return v.ID == int32(n) }) {
			return nil, fmt.Errorf("voter %d is named twice", n)
		}
		all = append(all, Voter{ID: int32(n), Host: host, Port: port})
	}
	return all, nil
}

func splitHostPort(address string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil || host == "" {
		return "", 0, errors.New("must be host:port")
	}
	port, err = parsePort(text)
	return host, port, err
}

// hostForm is Utils.VALID_HOST_CHARACTERS.
var hostForm = regexp.MustCompile(`^[0-9a-zA-Z\-%._:]*$`)

func parsePerIP(text string) (map[string]int, error) {
	limits := map[string]int{}
	for _, pair := range splitPairs(text) {
		i := strings.LastIndexByte(pair, ':') // an IPv6 address has colons of its own
		if i <= 0 {
			return nil, fmt.Errorf("%q is not of the form host:count", pair)
		}
		count, err := strconv.ParseInt(pair[i+1:], 10, 32)
		if err != nil || count < 0 {
			return nil, fmt.Errorf("%q: the count must be a number from 0 on", pair)
		}
		host := strings.Trim(pair[:i], "[]")
		if !hostForm.MatchString(host) {
			return nil, fmt.Errorf("%q is not an address or the name of a host", host)
		}
		limits[host] = int(count)
	}
	return limits, nil
}

// The validators of the forms above.

type voters struct{}

func (voters) Check(value any) error {
	_, err := parseVoters(value.([]string))
	return err
}

func (voters) String() string { return "id@host:port,..." }

type hostPorts struct{}

func (hostPorts) Check(value any) error {
	for _, address := range value.([]string) {
		if _, _, err := splitHostPort(address); err != nil {
			return fmt.Errorf("%q: %w", address, err)
		}
	}
	return nil
}

func (hostPorts) String() string { return "host:port,..." }

type perIP struct{}

func (perIP) Check(value any) error {
	_, err := parsePerIP(value.(string))
	return err
}

func (perIP) String() string { return "host:count,..." }

type hostPort struct{ emptyOK bool }

func (h hostPort) Check(value any) error {
	address := value.(string)
	if address == "" && h.emptyOK {
		return nil
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return errors.New("must be host:port")
	}
	_, err = parsePort(port)
	return err
}

func (hostPort) String() string { return "host:port" }

// clusterID is Kafka's base64 form of 16 bytes; it never begins with a hyphen, which
// tools would take for a flag.
type clusterID struct{}

func (clusterID) Check(value any) error {
	id, err := uuid.Parse(value.(string))
	if err != nil || id.IsZero() {
		return errors.New("must be 22 characters of base64url (16 bytes)")
	}
	return nil
}

func (clusterID) String() string { return "22 characters of base64url" }
