package kafkago

import (
	"testing"

	"github.com/klamm-mq/klamm/compat-tests/groups"
)

// After the broker was gone, the Reader reads again from the offset that it asked for when
// it joined, also if it has meanwhile sent a commit that it still had to make: the next one
// is older.
func TestGroup(t *testing.T) {
	member := groups.Go("kafkago")
	member.GoesBack = true
	groups.Run(t, member)
}
