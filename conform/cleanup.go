package conform

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// cleanWait bounds the deletion of what a run made. It does not end with the run: names
// are given back after an interrupt, too.
const (
	cleanWait        = 30 * time.Second
	clusterCleanWait = 10 * time.Minute // nodes start again
)

// OwnsGroup notes that a group of the run's may exist, to be deleted at the end.
func (r *R) OwnsGroup(name string) { r.groups = append(r.groups, r.Name(name)) }

// close deletes what the run made and ends its connections.
func (r *R) close() (err error) {
	wait := cleanWait
	if r.failed {
		wait = clusterCleanWait
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), wait)
	defer cancel()
	r.ctx = ctx
	for name := range r.conns { // members leave, sessions end, and nothing half-read remains
		r.Disconnect(name)
	}
	defer func() {
		if e := recover(); e != nil {
			err = fmt.Errorf("%s: cleaning up: %w", r.t.Scenario, asError(e))
		}
		for name := range r.conns {
			r.Disconnect(name)
		}
	}()
	if err := r.heal(); err != nil || r.keep {
		return err
	}
	if len(r.created) > 0 {
		slices.Sort(r.created)
		r.deleteTopics(slices.Compact(r.created))
	}
	r.deleteGroups()
	r.closeSessions()
	return nil
}

// noteSession notes the session that a Fetch was answered from. A session outlives its
// connection; a broker that has too many opens no more.
func (r *R) noteSession(resp kmsg.Response) {
	if f, ok := resp.(*kmsg.FetchResponse); ok && f.SessionID > 0 && f.ErrorCode == 0 && !slices.Contains(r.sessions, f.SessionID) {
		r.sessions = append(r.sessions, f.SessionID)
	}
}

func (r *R) closeSessions() {
	for _, id := range r.sessions {
		req := kmsg.NewPtrFetchRequest()
		req.Version, req.ReplicaID, req.SessionID, req.SessionEpoch = 12, -1, id, -1
		r.quietEverywhere(req)
	}
}

// quietEverywhere asks every node: sessions and groups belong to one of them.
func (r *R) quietEverywhere(req kmsg.Request) (all []kmsg.Response) {
	for _, i := range r.Up() {
		all = append(all, r.QuietAt(i, req))
	}
	return all
}

func (r *R) deleteGroups() {
	if len(r.groups) == 0 || !r.target.Advertises(int16(kmsg.DeleteGroups)) {
		return
	}
	slices.Sort(r.groups)
	r.groups = slices.Compact(r.groups)
	for range 20 { // until members that went silent have left
		req := kmsg.NewPtrDeleteGroupsRequest()
		req.Version, req.Groups = 1, r.groups
		busy := false
		for _, resp := range r.quietEverywhere(req) {
			for _, g := range resp.(*kmsg.DeleteGroupsResponse).Groups {
				busy = busy || g.ErrorCode == 68 // NON_EMPTY_GROUP
			}
		}
		if !busy {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// Of an interrupted run, requests may still be on their way when it has ended: the broker
// is looked at until so many looks in a row have found nothing, at most maxLooks times.
const (
	quietLooks = 4
	maxLooks   = 60
	lookPause  = 75 * time.Millisecond
)

// sweep deletes the topics and groups of the session that no scenario has noted as its
// own. Most often there is none, and it only looks.
func (run *session) sweep() error {
	for look, quiet := 0, 0; ; look++ {
		found, err := run.sweepOnce()
		if quiet++; found > 0 {
			quiet = 0
		}
		if err != nil || run.ctx.Err() == nil || quiet == quietLooks || look == maxLooks {
			return err
		}
		time.Sleep(lookPause)
	}
}

// sweepOnce returns how many it has found.
func (run *session) sweepOnce() (found int, err error) {
	s := &Scenario{Name: "cleaning up"}
	s.Run = func(r *R) {
		r.created = ours(run.prefix, r.allTopics())
		if run.target.Advertises(int16(kmsg.ListGroups)) {
			r.groups = ours(run.prefix, r.allGroups())
		}
		found = len(r.created) + len(r.groups)
	}
	_, err = play(newRun(context.WithoutCancel(run.ctx), s, run.target, run.prefix), s)
	return found, err
}

func ours(prefix string, names []string) (found []string) {
	for _, name := range names {
		if strings.HasPrefix(name, prefix) {
			found = append(found, name)
		}
	}
	return found
}

func (r *R) allTopics() (names []string) {
	req := metadataOf(nil)
	req.Topics = nil
	for _, topic := range r.Quiet(req).(*kmsg.MetadataResponse).Topics {
		if topic.Topic != nil {
			names = append(names, *topic.Topic)
		}
	}
	return names
}

func (r *R) allGroups() (names []string) {
	for _, g := range r.Quiet(kmsg.NewPtrListGroupsRequest()).(*kmsg.ListGroupsResponse).Groups {
		names = append(names, g.Group)
	}
	return names
}
