package broker_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
)

func expect(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// kafkaCode is the error code of a client's error, 0 of nil, and -1 if it has none.
func kafkaCode(err error) int16 {
	var kafka *kerr.Error
	switch {
	case err == nil:
		return 0
	case errors.As(err, &kafka):
		return kafka.Code
	}
	return -1
}
