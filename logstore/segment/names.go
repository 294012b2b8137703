package segment

import (
	"fmt"
	"strconv"
	"strings"
)

// Suffixes of the files of a segment; their names begin with the base offset in 20
// digits, so that they sort by offset.
const (
	LogSuffix       = ".log"
	IndexSuffix     = ".index"
	TimeIndexSuffix = ".timeindex"
	TxnIndexSuffix  = ".txnindex"
)

// suffixes are all files that a segment may have, the log first.
var suffixes = [...]string{LogSuffix, IndexSuffix, TimeIndexSuffix, TxnIndexSuffix}

// FileName is the name of a segment's file without its directory.
func FileName(base int64, suffix string) string { return fmt.Sprintf("%020d%s", base, suffix) }

// ParseFileName is the base offset and the suffix of a segment's file; ok is false for
// any other name, also for one with a second suffix such as ".deleted".
func ParseFileName(name string) (base int64, suffix string, ok bool) {
	digits, ext, found := strings.Cut(name, ".")
	suffix = "." + ext
	if !found || len(digits) != 20 || !knownSuffix(suffix) {
		return 0, "", false
	}
	base, err := strconv.ParseInt(digits, 10, 64)
	return base, suffix, err == nil && base >= 0
}

func knownSuffix(suffix string) bool {
	for _, s := range suffixes {
		if s == suffix {
			return true
		}
	}
	return false
}
