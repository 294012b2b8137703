package kcat

import (
	"testing"

	"github.com/klamm-mq/klamm/compat-tests/groups"
)

func TestGroup(t *testing.T) { groups.Run(t, groups.Kcat()) }

func TestStaticMembers(t *testing.T) { groups.RunStatic(t, groups.Kcat()) }
