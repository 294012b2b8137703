package controller

import (
	"context"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/cluster/metalog"
)

// OnMetalog makes the controller's Log of a metalog.Log.
func OnMetalog(log *metalog.Log) Log { return onMetalog{log} }

type onMetalog struct{ *metalog.Log }

func (l onMetalog) Start(ctx context.Context, term metalog.Term, records []metadata.Record) (Proposal, error) {
	p, err := l.Log.Start(ctx, term, records)
	if err != nil {
		return nil, err // not a nil *Proposal in an interface
	}
	return p, nil
}
