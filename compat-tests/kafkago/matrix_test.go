package kafkago

import (
	"testing"

	"github.com/klamm-mq/klamm/compat-tests/matrix"
)

func TestMatrix(t *testing.T) { matrix.Run(t, matrix.KafkaGo(), matrix.Go("kafkago")) }
