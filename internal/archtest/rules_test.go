package archtest

// layers says where each package stands; the longest pattern that matches decides, and
// "x/..." is x with all below. A package may import its own layer and lower ones (the
// compiler refuses cycles). The responsibilities are those of docs/architecture.md.
var layers = []struct {
	pattern string
	layer   int
	why     string
}{
	{"internal/invariant", 0, "any package may assert"},
	{"protocol/offset", 0, "kinds of offset, used everywhere"},
	{"protocol/uuid", 0, "ids, used everywhere"},

	{"configs", 1, "tables of keys and typed configuration"},
	{"protocol", 1, "which API keys and versions are served"},
	{"protocol/batch", 1, "record batch bytes"},
	{"protocol/batch/batchtest", 1, "compacted batches for tests"},
	{"protocol/fetchenc", 1, "segmented Fetch responses"},
	{"protocol/kafkaerr", 1, "kinds of error that a client sees"},
	{"protocol/wire/...", 1, "connections as ordered requests and responses"},
	{"security/...", 1, "pure decisions and mechanisms, below handlers and cluster"},
	{"cluster/fetchsession", 1, "KIP-227 sessions, for handlers and follower fetchers alike"},
	{"cluster/metadata/...", 1, "records, image and delta: a pure function of the log"},
	{"cluster/purgatory", 1, "delayed operations"},
	{"cluster/quota", 1, "token buckets"},

	{"logstore/...", 2, "the log of one partition"},
	{"logstore/compaction", 2, "what the cleaner of a log keeps, pure"},
	{"cluster/metalog/...", 2, "the ordered committed log of metadata"},
	{"cluster/peer", 2, "connections to other brokers"},

	{"cluster/controller", 3, "which records a request means"},
	{"cluster/node", 3, "this broker's life in the cluster"},
	{"cluster/replica", 3, "leader and follower of each partition here"},

	{"cluster/coordinator/...", 4, "shards as replicated state machines, and their rules"},
	{"cluster/share", 4, "in-flight records on the partition leader"},

	{"handlers", 5, "one file per API key"},

	{"broker", 6, "assembles one broker"},
	{"broker/brokertest", 6, "brokers for tests, ours and of programs that embed one"},
	{"console/...", 6, "read-only views"},

	{"broker/conformance", 7, "a broker beside the recorded answers of Kafka"},
	{"broker/fieldcases", 7, "faults from the field, as tests"},
	{"broker/simtest/...", 7, "whole clusters in one test"},
	{"cmd/...", 7, "flags and signals"},
	{"conform/...", 7, "scenarios against any bootstrap address"},
	{"internal/archtest", 7, "looks at all"},
}

// scope is the files that a rule looks at.
type scope int

const (
	production scope = 1 << iota // files that are built into programs
	tests                        // files named _test.go
	everywhere = production | tests
)

// bans: packages of who must not import what.
var bans = []struct {
	who, what []string
	in        scope
	why       string
}{
	{
		[]string{"logstore/..."},
		[]string{"cluster/...", "handlers", "broker/...", kmsg, kgo, kadm, raft, badger},
		production,
		"a log knows nothing of clusters, raft or requests",
	},
	{
		[]string{"handlers"},
		[]string{"logstore/...", "cluster/metalog/..."},
		production,
		"a handler makes one call of its domain; bytes and consensus lie behind it",
	},
	{
		[]string{"cluster/controller"},
		[]string{"logstore/..."},
		production,
		"the controller decides on metadata alone",
	},
	{
		[]string{"cluster/coordinator/..."},
		[]string{"logstore/..."},
		production,
		"a coordinator reaches a log only through coordinator.Log",
	},
	{
		[]string{"cluster/coordinator/group", "cluster/coordinator/txn", "cluster/coordinator/share"},
		[]string{"cluster/replica"},
		production,
		"rules of groups and transactions are pure; the runtime does the appending",
	},
	{
		[]string{"conform/..."},
		[]string{"broker/...", "handlers", "cluster/...", "logstore/...", "protocol/..."},
		everywhere,
		"it judges any broker from outside, so it shares no code with ours",
	},
	{
		[]string{"broker", "handlers", "cluster/...", "logstore/...", "console/...", "protocol/...", "security/...", "configs"},
		[]string{"testing"},
		production,
		"test helpers stay out of the binary",
	},
}

// homes: what is imported in these packages and nowhere else.
var homes = []struct {
	what, where []string
	in          scope
	why         string
}{
	{[]string{raft}, []string{"cluster/metalog/..."}, everywhere, "consensus stays replaceable behind one small interface"},
	{[]string{badger}, []string{"cluster/metalog/..."}, everywhere, "as raft; partition data is not in Badger"},
	{[]string{"github.com/spf13/viper"}, []string{"configs"}, everywhere, "everyone else gets typed values"},
	{[]string{"github.com/magiconair/properties"}, []string{"logstore"}, everywhere, "meta.properties is of that format"},
	{[]string{"github.com/spf13/cobra", "github.com/spf13/pflag"}, []string{"cmd/..."}, everywhere, "flags are the program's, not the library's"},
	{
		[]string{kmsg},
		[]string{
			"handlers", "protocol/...", "conform/...", "broker/simtest/...", "cluster/coordinator/...",
			"cluster/replica", "cluster/controller", "cluster/node", "cluster/peer", "cmd/...",
		},
		production,
		"the wire's types end where requests end",
	},
	{[]string{kgo, kadm}, []string{"cmd/...", "conform/...", "broker/simtest/..."}, production, "a broker is no client"},
	{[]string{"unsafe"}, []string{"internal/invariant"}, production, "nothing here is fast enough to need it"},
}

const (
	kmsg   = "github.com/twmb/franz-go/pkg/kmsg"
	kgo    = "github.com/twmb/franz-go/pkg/kgo"
	kadm   = "github.com/twmb/franz-go/pkg/kadm"
	raft   = "github.com/hashicorp/raft"
	badger = "github.com/dgraph-io/badger/v4/..."
)

// calls that packages of who must not make. Tests of a package that uses synctest run in
// virtual time, and inBubble says that the calls are allowed there.
var calls = []struct {
	who, except []string
	call        []string
	in          scope
	inBubble    bool
	why         string
}{
	{
		[]string{"..."},
		nil,
		[]string{"time.Sleep"},
		tests, true,
		"a test waits for a condition; in a bubble time costs nothing",
	},
	{
		[]string{"logstore/...", "cluster/replica"},
		[]string{"logstore/vfs"},
		[]string{
			"os.Open", "os.OpenFile", "os.Create", "os.ReadFile", "os.WriteFile", "os.Remove", "os.RemoveAll",
			"os.Rename", "os.Mkdir", "os.MkdirAll", "os.Stat", "os.ReadDir", "os.Truncate",
		},
		production, false,
		"what goes around vfs is not seen by crash tests",
	},
}

const (
	maxFileLines     = 600 // a longer file hides a package that wants to come out
	maxFunctionLines = 100 // a screen and a half; the usual is 4 to 12
	minDocWords      = 12  // a sentence or two: what the package is responsible for
)
