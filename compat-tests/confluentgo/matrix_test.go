package confluentgo

import (
	"testing"

	"github.com/klamm-mq/klamm/compat-tests/matrix"
)

func TestMatrix(t *testing.T) { matrix.Run(t, matrix.ConfluentGo(), matrix.Go("confluent")) }

func TestRacks(t *testing.T) { matrix.RunRacks(t, matrix.Go("confluent")) }
