package franz

import (
	"testing"

	"github.com/klamm-mq/klamm/compat-tests/matrix"
)

func TestMatrix(t *testing.T) { matrix.Run(t, matrix.Franz(), matrix.Go("franz")) }

func TestRacks(t *testing.T) { matrix.RunRacks(t, matrix.Go("franz")) }
