package confluentgo

import (
	"testing"

	"github.com/klamm-mq/klamm/compat-tests/groups"
)

func TestGroup(t *testing.T) { groups.Run(t, groups.Go("confluent")) }

func TestStaticMembers(t *testing.T) { groups.RunStatic(t, groups.Go("confluent")) }
