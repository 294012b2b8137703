package configs

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/viper"
)

// Sources are the places that configuration comes from.
type Sources struct {
	Files []string // later ones win
	Env   []string // NAME=value, as os.Environ gives it
	Set   []string // key=value of the command line

	// ReadFile replaces os.ReadFile.
	ReadFile func(name string) ([]byte, error)
}

// Load reads and checks all of a broker's configuration. Its error is of type Problems;
// nothing was opened then but the files themselves.
func Load(s Sources) (*Broker, []Warning, error) {
	layers, problems := s.layers()
	store, warnings, more := sortOut(layers)
	problems = append(problems, more...)
	parsed, more := store.parse()
	problems = append(problems, more...)
	if len(problems) > 0 {
		return nil, warnings, problems
	}
	b, more := newBroker(store, parsed)
	if len(more) == 0 {
		more = store.checkOthers(b)
	}
	if len(more) > 0 {
		return nil, warnings, more
	}
	return b, append(warnings, b.advice()...), nil
}

// Default is the configuration without any source: one node on 127.0.0.1:9092 with its
// data in ./klamm-data.
func Default() *Broker {
	b, _, err := Load(Sources{})
	if err != nil {
		panic("the default configuration is refused: " + err.Error())
	}
	return b
}

// layer is what one place sets; names are as written.
type layer struct {
	settings map[string]string
	place    func(name string) string
}

func (s Sources) layers() ([]layer, Problems) {
	var layers []layer
	var problems Problems
	for _, file := range s.Files {
		l, err := s.fileLayer(file)
		if err != nil {
			problems = append(problems, Problem{Place: file, Reason: err.Error()})
			continue
		}
		layers = append(layers, l)
	}
	layers = append(layers, clusterIDLayer(s.Env), envLayer(s.Env, "KAFKA_"), envLayer(s.Env, "KLAMM_"))
	set, more := setLayer(s.Set)
	return append(layers, set), append(problems, more...)
}

func (s Sources) fileLayer(name string) (layer, error) {
	read := s.ReadFile
	if read == nil {
		read = os.ReadFile
	}
	text, err := read(name)
	if err != nil {
		var path *fs.PathError
		if errors.As(err, &path) {
			err = path.Err // the place says the name already
		}
		return layer{}, fmt.Errorf("cannot be read: %w", err)
	}
	settings, err := readFile(name, text)
	return layer{settings, func(string) string { return name }}, err
}

// envLayer takes the variables with a prefix, named as in the apache/kafka image.
func envLayer(env []string, prefix string) layer {
	l := layer{settings: map[string]string{}}
	variables := map[string]string{}
	for _, entry := range env {
		variable, value, _ := strings.Cut(entry, "=")
		if rest, ok := strings.CutPrefix(variable, prefix); ok && rest != "" && !notSettings(variable) {
			key := envKey(rest)
			l.settings[key], variables[key] = value, variable
		}
	}
	l.place = func(name string) string { return "environment " + variables[name] }
	return l
}

// clusterIDLayer takes CLUSTER_ID, from which the apache/kafka image formats its directory.
func clusterIDLayer(env []string) layer {
	const variable = "CLUSTER_ID"
	l := layer{map[string]string{}, func(string) string { return "environment " + variable }}
	for _, entry := range env {
		if value, ok := strings.CutPrefix(entry, variable+"="); ok && value != "" {
			l.settings["cluster.id"] = value
		}
	}
	return l
}

// envKey turns LOG_DIRS into log.dirs: "_" is a dot, "__" an underscore, "___" a hyphen
// (KafkaDockerWrapper.getServerConfigsFromEnv).
func envKey(name string) string {
	key := strings.ReplaceAll(strings.ToLower(name), "_", ".")
	key = strings.ReplaceAll(key, "...", "-")
	return strings.ReplaceAll(key, "..", "_")
}

// notSettings are variables that Kafka's scripts and images read for other purposes.
func notSettings(variable string) bool {
	switch variable {
	case "KAFKA_VERSION", "KAFKA_HOME", "KAFKA_DEBUG", "KAFKA_CLUSTER_ID",
		"KAFKA_HEAP_OPTS", "KAFKA_OPTS", "KAFKA_JVM_PERFORMANCE_OPTS", "KAFKA_GC_LOG_OPTS",
		"KAFKA_LOG4J_OPTS", "KAFKA_LOG4J_ROOT_LOGLEVEL", "KAFKA_LOG4J_LOGGERS", "KAFKA_TOOLS_LOG4J_LOGLEVEL",
		"KAFKA_JMX_OPTS", "KAFKA_JMX_PORT", "KAFKA_JMX_HOSTNAME":
		return true
	}
	return ofService.MatchString(variable)
}

// ofService are variables that Kubernetes sets where there is a service called kafka or klamm.
var ofService = regexp.MustCompile(`^(KAFKA|KLAMM)_(SERVICE_HOST|SERVICE_PORT(_.*)?|PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)

// setPlace is the command line.
const setPlace = "--set"

func setLayer(pairs []string) (layer, Problems) {
	l := layer{map[string]string{}, func(string) string { return setPlace }}
	var problems Problems
	for _, pair := range pairs {
		key, value, ok := strings.Cut(pair, "=")
		if key = strings.TrimSpace(key); !ok || key == "" {
			problems = append(problems, Problem{Place: setPlace, Reason: fmt.Sprintf("%q is not of the form key=value", key)})
			continue
		}
		l.settings[key] = value
	}
	return l, problems
}

// store holds the merged text of served keys and where each was set.
type store struct {
	viper  *viper.Viper
	places map[string]string  // of what is set
	others map[string]Problem // what was set of other names, each as the last layer has it
}

func newStore() *store {
	// No key contains the delimiter, so that viper takes each as it is.
	s := &store{viper: viper.NewWithOptions(viper.KeyDelimiter("\x00")), places: map[string]string{}, others: map[string]Problem{}}
	for i := range brokerKeys {
		if key := &brokerKeys[i]; !key.Unset {
			s.viper.SetDefault(key.Name, key.Default)
		}
	}
	return s
}

func (s *store) set(name, value, place string) error {
	s.places[name] = place
	return s.viper.MergeConfigMap(map[string]any{name: value})
}

// text is what was set, else the default; ok is false if there is neither.
func (s *store) text(name string) (text string, ok bool) {
	return s.viper.GetString(name), s.viper.IsSet(name)
}

func (s *store) place(name string) string {
	if place, set := s.places[name]; set {
		return place
	}
	return "default"
}

// sortOut takes the layers, lowest first, into a store, and reports what does not belong
// there.
func sortOut(layers []layer) (*store, []Warning, Problems) {
	s := newStore()
	var problems Problems
	for _, l := range layers {
		for _, name := range slices.Sorted(maps.Keys(l.settings)) {
			setting := Problem{Place: l.place(name), Key: name, Value: l.settings[name]}
			if what, _ := classify(name, setting.Value); what != served {
				s.others[name] = setting
			} else if err := s.set(name, setting.Value, setting.Place); err != nil {
				setting.Reason = err.Error()
				problems = append(problems, setting)
			}
		}
	}
	warnings, more := judge(s.others)
	return s, warnings, append(problems, more...)
}

// judge tells what becomes of settings that are not served.
func judge(settings map[string]Problem) (warnings []Warning, problems Problems) {
	ignoredNames, notYetNames := map[string]bool{}, map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		p := settings[name]
		what, why := classify(name, p.Value)
		if err := checkUnserved(name, p.Value); err != nil && what != refused {
			p.Value, p.Reason = Shown(name, p.Value), err.Error()
			problems = append(problems, p)
			continue
		}
		switch what {
		case refused:
			p.Value, p.Reason = Shown(name, p.Value), why+"; the key is refused rather than ignored"
			problems = append(problems, p)
		case ignored:
			ignoredNames[name] = true
		case notYet:
			notYetNames[name] = true
		default:
			warnings = append(warnings, unknownKey(p.Place, name))
		}
	}
	warnings = append(warnings, summary("keys of Kafka that have no meaning here were ignored", ignoredNames)...)
	return append(warnings, summary("keys of Kafka that are not supported yet were ignored", notYetNames)...), problems
}

func summary(text string, names map[string]bool) []Warning {
	if len(names) == 0 {
		return nil
	}
	return []Warning{Warning(text + ": " + strings.Join(slices.Sorted(maps.Keys(names)), ", "))}
}

// unknownKey says that a key of a place was ignored, and what may have been meant.
func unknownKey(place, name string) Warning {
	return Warning(place + ": unknown key " + readable(name) + " was ignored" + meant(name))
}

// UnknownToBrokers tells whether a broker key that a client may set has no meaning to any
// broker, and then what may have been meant, as the end of a sentence.
func UnknownToBrokers(name string) (hint string, is bool) {
	if what, _ := classify(name, ""); what != unknown || IsDynamic(name) {
		return "", false
	}
	return meant(name), true
}

// meant suggests another key than an unknown one. A topic key belongs to topics, and has
// another name as the broker's default.
func meant(name string) string {
	if key := TopicKey(name); key != nil {
		if len(key.Synonyms) == 0 {
			return "; it is a key of topics"
		}
		return "; it is a key of topics, whose default is " + key.Synonyms[0].Name
	}
	return didYouMean(nearest(name, brokerNames()))
}

// parse reads all served values.
func (s *store) parse() (values, Problems) {
	parsed := values{}
	var problems Problems
	for i := range brokerKeys {
		key := &brokerKeys[i]
		text, ok := s.text(key.Name)
		if !ok {
			continue
		}
		value, err := key.Parse(text)
		if err != nil {
			problems = append(problems, s.problem(key.Name, err.Error()))
			continue
		}
		parsed[key.Name] = value
	}
	for _, name := range slices.Sorted(maps.Keys(s.places)) {
		if key := listenerLimit(name); key != nil {
			text, _ := s.text(name)
			if _, err := key.Parse(text); err != nil {
				problems = append(problems, s.problem(name, err.Error()))
			}
		}
	}
	return parsed, problems
}

func (s *store) problem(name, reason string) Problem {
	text, _ := s.text(name)
	return Problem{Place: s.place(name), Key: name, Value: Shown(name, text), Reason: reason}
}
