package sarama

import (
	"testing"

	"github.com/klamm-mq/klamm/compat-tests/matrix"
)

func TestMatrix(t *testing.T) { matrix.Run(t, matrix.Sarama(), matrix.Go("sarama")) }

func TestRacks(t *testing.T) { matrix.RunRacks(t, matrix.Go("sarama")) }
