package franz

import (
	"testing"

	"github.com/klamm-mq/klamm/compat-tests/groups"
)

func TestGroup(t *testing.T) { groups.Run(t, groups.Go("franz")) }

func TestStaticMembers(t *testing.T) { groups.RunStatic(t, groups.Go("franz")) }
