package conform

import (
	"fmt"
	"hash/crc32"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Line is one struct of an answer: where it is, and its plain fields in order. Structs
// inside it have lines of their own, which follow.
type Line struct {
	Path   string // "" for the answer itself, "Topics[0].Partitions[1]"
	Fields []Field
}

// Field is the name and the normalised value of a field; the value holds no space unless
// it is quoted.
type Field struct{ Name, Value string }

// sets are the arrays whose order means nothing: Kafka builds them from hash maps.
// They are sorted by their rendered lines.
var sets = map[string]bool{
	"ProduceResponse.Topics": true, "ProduceResponse.Topics.Partitions": true,
	"ListOffsetsResponse.Topics": true, "ListOffsetsResponse.Topics.Partitions": true,
	"MetadataResponse.Topics": true, "MetadataResponse.Topics.Partitions": true, "MetadataResponse.Brokers": true,
	"CreateTopicsResponse.Topics": true, "CreateTopicsResponse.Topics.Configs": true,
	"DeleteTopicsResponse.Topics": true, "DescribeClusterResponse.Brokers": true,
	"OffsetForLeaderEpochResponse.Topics": true, "OffsetForLeaderEpochResponse.Topics.Partitions": true,
	"OffsetCommitResponse.Topics": true, "OffsetCommitResponse.Topics.Partitions": true,
	"OffsetFetchResponse.Topics": true, "OffsetFetchResponse.Topics.Partitions": true,
	"OffsetFetchResponse.Groups": true, "OffsetFetchResponse.Groups.Topics": true,
	"OffsetFetchResponse.Groups.Topics.Partitions": true, "OffsetDeleteResponse.Topics": true,
	"OffsetDeleteResponse.Topics.Partitions": true, "ListGroupsResponse.Groups": true,
	"DescribeGroupsResponse.Groups": true, "DescribeGroupsResponse.Groups.Members": true,
	"DeleteGroupsResponse.Groups": true, "JoinGroupResponse.Members": true,
	"FindCoordinatorResponse.Coordinators": true, "DeleteRecordsResponse.Topics": true,
	"DeleteRecordsResponse.Topics.Partitions": true, "ApiVersionsResponse.ApiKeys": true,
	"ApiVersionsResponse.SupportedFeatures": true, "ApiVersionsResponse.FinalizedFeatures": true,
	"DescribeConfigsResponse.Resources": true, "DescribeConfigsResponse.Resources.Configs": true,
	"AlterConfigsResponse.Resources": true, "IncrementalAlterConfigsResponse.Resources": true,
	"CreatePartitionsResponse.Topics": true, "ListConfigResourcesResponse.ConfigResources": true,
	"DescribeLogDirsResponse.Dirs.Topics": true, "DescribeLogDirsResponse.Dirs.Topics.Partitions": true,
	"AddPartitionsToTxnResponse.Topics": true, "AddPartitionsToTxnResponse.Topics.Partitions": true,
	"WriteTxnMarkersResponse.Markers": true, "WriteTxnMarkersResponse.Markers.Topics": true,
	"WriteTxnMarkersResponse.Markers.Topics.Partitions": true,
	"TxnOffsetCommitResponse.Topics":                    true, "TxnOffsetCommitResponse.Topics.Partitions": true,
	"ElectLeadersResponse.Topics": true, "AlterPartitionAssignmentsResponse.Topics": true,
	"AlterPartitionAssignmentsResponse.Topics.Partitions": true,
	"DescribeProducersResponse.Topics":                    true, "DescribeProducersResponse.Topics.Partitions": true,
	"ListTransactionsResponse.TransactionStates": true, "DescribeTransactionsResponse.TransactionStates": true,
	"DescribeClientQuotasResponse.Entries": true, "DescribeUserSCRAMCredentialsResponse.Results": true,
	"AlterUserSCRAMCredentialsResponse.Results": true, "ConsumerGroupDescribeResponse.Groups": true,
	"ConsumerGroupDescribeResponse.Groups.Members": true, "DescribeACLsResponse.Resources": true,
	"ElectLeadersResponse.Topics.Partitions": true, "AlterReplicaLogDirsResponse.Topics": true, "AlterReplicaLogDirsResponse.Topics.Partitions": true,
	"ListPartitionReassignmentsResponse.Topics": true, "ListPartitionReassignmentsResponse.Topics.Partitions": true,
	"DescribeClientQuotasResponse.Entries.Entity": true, "DescribeClientQuotasResponse.Entries.Values": true,
	"AlterClientQuotasResponse.Entries": true, "AlterClientQuotasResponse.Entries.Entity": true,
	"UpdateFeaturesResponse.Results":                         true,
	"DescribeQuorumResponse.Topics.Partitions.CurrentVoters": true, "DescribeQuorumResponse.Topics.Partitions.Observers": true,
	"DescribeQuorumResponse.Nodes":                                 true,
	"DescribeUserSCRAMCredentialsResponse.Results.CredentialInfos": true,
}

// nodeFields hold a node id.
var nodeFields = map[string]bool{
	"NodeID": true, "LeaderID": true, "Leader": true, "ControllerID": true, "Replicas": true, "ISR": true,
	"OfflineReplicas": true, "BrokerID": true, "Coordinator": true, "CurrentReplicas": true,
	"ReplicaID": true, "EligibleLeaderReplicas": true, "LastKnownELR": true,
}

// nodeSets are the fields of node ids whose order means nothing.
var nodeSets = map[string]bool{"ISR": true, "OfflineReplicas": true, "EligibleLeaderReplicas": true, "LastKnownELR": true}

// numberedFields hold a number that the broker invents, and the least one that it gives:
// what is below means none.
var numberedFields = map[string]struct {
	symbol string
	from   int64
}{"SessionID": {"session", 1}, "ProducerID": {"producer", 0}}

// renderer turns one answer into lines.
type renderer struct {
	*symbols
	lines []Line
}

// render gives an answer as lines, the first for the answer itself.
func (s *symbols) render(resp kmsg.Response) []Line {
	r := renderer{symbols: s}
	v := reflect.ValueOf(resp).Elem()
	r.structure("", v.Type().Name(), v)
	return r.lines
}

func (r *renderer) structure(path, kind string, v reflect.Value) {
	at := len(r.lines)
	r.lines = append(r.lines, Line{Path: path})
	r.learnTopic(v)
	var fields []Field
	for i := range v.NumField() {
		name, f := v.Type().Field(i).Name, v.Field(i)
		if path == "" && name == "Version" {
			continue
		}
		fields = append(fields, r.field(path, kind, name, f)...)
	}
	r.lines[at].Fields = fields
}

// learnTopic calls an id that stands beside a topic's name for the first time by that name.
func (r *renderer) learnTopic(v reflect.Value) {
	id, name := v.FieldByName("TopicID"), reflect.Indirect(v.FieldByName("Topic"))
	if !id.IsValid() || id.IsZero() || !name.IsValid() || name.Kind() != reflect.String || name.Len() == 0 {
		return
	}
	if at := id.Interface().([16]byte); r.uuids[at] == "" {
		r.uuids[at] = r.nameID(strings.TrimPrefix(name.String(), r.prefix))
	}
}

// field renders one field: as part of its struct's line, or as lines of its own.
func (r *renderer) field(path, kind, name string, f reflect.Value) []Field {
	below := strings.TrimPrefix(path+"."+name, ".")
	switch {
	case name == "UnknownTags":
		return r.tags(f)
	case name == "RecordBatches" || name == "Records":
		return r.recordBatches(below, name, f)
	case f.Kind() == reflect.Struct:
		if !isDefault(f) {
			r.structure(below, kind+"."+name, f)
		}
		return nil
	case f.Kind() == reflect.Pointer && f.Type().Elem().Kind() == reflect.Struct:
		if !f.IsNil() {
			r.structure(below, kind+"."+name, f.Elem())
			return nil
		}
		return []Field{{name, "null"}}
	case f.Kind() == reflect.Slice && f.Type().Elem().Kind() == reflect.Struct:
		return []Field{{name, r.structures(below, kind+"."+name, f)}}
	default:
		return []Field{{name, r.plain(name, f)}}
	}
}

// isDefault reports whether a struct is what is read where an answer has none: a tagged
// field, or one of a later version. It needs no line. That no broker writes such a field
// out shows in the number of bytes.
func isDefault(v reflect.Value) bool {
	none := reflect.New(v.Type())
	if d, ok := none.Interface().(interface{ Default() }); ok {
		d.Default()
	}
	return reflect.DeepEqual(none.Elem().Interface(), v.Interface())
}

// structures renders an array of structs and returns its length as value.
func (r *renderer) structures(path, kind string, f reflect.Value) string {
	if f.IsNil() {
		return "null"
	}
	order := make([]int, f.Len())
	for i := range order {
		order[i] = i
	}
	if sets[kind] {
		r.sortSet(order, kind, f)
	}
	for i, at := range order {
		for _, l := range r.alone(kind, f.Index(at)) {
			l.Path = strings.TrimSuffix(fmt.Sprintf("%s[%d].%s", path, i, l.Path), ".")
			r.lines = append(r.lines, l)
		}
	}
	return "#" + strconv.Itoa(f.Len())
}

// alone renders a struct as if there were nothing around it.
func (r *renderer) alone(kind string, v reflect.Value) []Line {
	one := renderer{symbols: r.symbols}
	one.structure("", kind, v)
	return one.lines
}

// sortSet orders the indices of a set by what its structs look like without the numbers
// of symbols, which are given in the order that comes of it.
func (r *renderer) sortSet(order []int, kind string, f reflect.Value) {
	defer func(before bool) { r.blind = before }(r.blind)
	r.blind = true
	texts := make([]string, len(order))
	for i := range texts {
		texts[i] = linesText(r.alone(kind, f.Index(i)))
	}
	slices.SortStableFunc(order, func(a, b int) int { return strings.Compare(texts[a], texts[b]) })
}

func (r *renderer) tags(f reflect.Value) (fields []Field) {
	tags := f.Interface().(kmsg.Tags)
	tags.Each(func(tag uint32, value []byte) {
		fields = append(fields, Field{fmt.Sprintf("tag%d", tag), fmt.Sprintf("0x%x", value)})
	})
	return fields
}

// plain renders a value without structs in it.
func (r *renderer) plain(name string, f reflect.Value) string {
	switch f.Kind() {
	case reflect.Bool:
		return strconv.FormatBool(f.Bool())
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint16, reflect.Uint32:
		return r.number(name, f)
	case reflect.Float64:
		return strconv.FormatFloat(f.Float(), 'g', -1, 64)
	case reflect.String:
		if (strings.HasSuffix(name, "Message") || name == "Documentation") && f.Len() > 0 { // ours are our own
			return "text"
		}
		return r.named(name, f.String())
	case reflect.Pointer:
		if f.IsNil() {
			return "null"
		}
		return r.plain(name, f.Elem())
	case reflect.Array: // of a uuid
		return token(r.uuid(f.Interface().([16]byte)))
	case reflect.Slice:
		return r.list(name, f)
	default: // kmsg has no other
		panic("conform: a field of kind " + f.Kind().String())
	}
}

// named is a text; the name of a resource may be a node's id.
func (r *renderer) named(field, v string) string {
	if id, err := strconv.Atoi(v); field == "ResourceName" && err == nil && strconv.Itoa(id) == v && slices.Contains(r.nodes, int32(id)) {
		return r.node(int32(id))
	}
	return r.text(v)
}

func (r *renderer) number(name string, f reflect.Value) string {
	if !f.CanInt() {
		if name == "Port" {
			return r.port(int64(f.Uint()))
		}
		return strconv.FormatUint(f.Uint(), 10)
	}
	v := f.Int()
	if s, ok := f.Interface().(fmt.Stringer); ok {
		return strings.ReplaceAll(s.String(), " ", "_")
	}
	if kind, ok := numberedFields[name]; ok && v >= kind.from {
		return r.numbered(kind.symbol, strconv.FormatInt(v, 10))
	}
	if name == "ControllerID" && len(r.nodes) > 1 && slices.Contains(r.nodes, int32(v)) {
		return "some-node" // Kafka names any
	}
	if nodeFields[name] && f.Kind() == reflect.Int32 {
		return r.node(int32(v))
	}
	switch {
	case name == "Port":
		return r.port(v)
	case name == "ThrottleMillis" && v > 0: // how long depends on the clock
		return "some"
	}
	if f.Kind() == reflect.Int64 {
		return r.integer(v)
	}
	return strconv.FormatInt(v, 10)
}

func (r *renderer) list(name string, f reflect.Value) string {
	if f.IsNil() {
		return "null"
	}
	if f.Type().Elem().Kind() == reflect.Uint8 {
		return r.bytes(f.Bytes())
	}
	items := make([]string, f.Len())
	for i := range items {
		items[i] = r.plain(name, f.Index(i))
	}
	if nodeSets[name] {
		slices.Sort(items)
	}
	return token("[" + strings.Join(items, ",") + "]")
}

func (s *symbols) bytes(b []byte) string {
	if b == nil {
		return "null"
	}
	return s.text(string(b))
}

func checksum(s string) string { return fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(s))) }

// String is the line as transcripts hold it: "path name=value name=value".
func (l Line) String() string {
	var b strings.Builder
	b.WriteString(l.Path)
	for _, f := range l.Fields {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(f.Name + "=" + f.Value)
	}
	return b.String()
}

func linesText(lines []Line) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(l.String() + "\n")
	}
	return b.String()
}
