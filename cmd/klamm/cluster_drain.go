package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// drainFlags are the flags of `klamm cluster drain`.
type drainFlags struct {
	dryRun, cancel, fewer bool
	throttle              int64
	parallel              int
}

func newClusterDrain(std streams) *cobra.Command {
	var f clientFlags
	var flags drainFlags
	cmd := &cobra.Command{
		Use:   "drain NODE",
		Short: "Move all partitions of a broker to the others",
		Long: "Move all partitions of a broker to the others, leaderships included, while clients go on: each is copied first,\n" +
			"and leaves the broker when its new replicas are in sync. The broker may also be one that is down.\n" +
			"When the command is interrupted, the few partitions on their way go on; the same command takes up the rest.\n" +
			"New topics may be given to the broker until it is stopped.",
		Example: "  klamm cluster drain 3 --dry-run\n" +
			"  klamm cluster drain 3 --throttle 50000000\n" +
			"  klamm cluster drain 3 --cancel",
		Args: oneArg("node"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := parseNode(args[0])
			if err != nil {
				return err
			}
			if err := flags.check(cmd); err != nil {
				return err
			}
			client, err := f.connect(cmd.Context(), std)
			if err != nil {
				return err
			}
			defer client.Close()
			d := drain{client: client, std: std, id: id, flags: flags, timeout: f.timeout, done: map[topicPartition]bool{}}
			if err = d.run(cmd.Context()); err != nil && cmd.Context().Err() != nil {
				return errInterrupted
			}
			return err
		},
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&flags.dryRun, "dry-run", false, "print what would be moved, and move nothing")
	cmd.Flags().BoolVar(&flags.cancel, "cancel", false, "take back the moves that are under way")
	cmd.Flags().BoolVar(&flags.fewer, "fewer-replicas", false, "drop the replicas for which there are not enough other brokers")
	cmd.Flags().Int64Var(&flags.throttle, "throttle", 0, "bytes a second that each broker sends and receives for the moves; 0 is no limit")
	cmd.Flags().IntVar(&flags.parallel, "parallel", 20, "partitions that move at the same time")
	return cmd
}

func (flags *drainFlags) check(cmd *cobra.Command) error {
	switch {
	case flags.throttle < 0 || cmd.Flags().Changed("throttle") && flags.throttle == 0:
		return usagef("--throttle %d: want a positive number of bytes a second", flags.throttle)
	case flags.parallel < 1:
		return usagef("--parallel %d: want a positive number of partitions", flags.parallel)
	case flags.cancel && flags.dryRun:
		return usagef("--cancel and --dry-run exclude each other")
	}
	return nil
}

// drain is a command under way.
type drain struct {
	client  *kgo.Client
	std     streams
	id      int32
	flags   drainFlags
	timeout time.Duration           // of one question
	done    map[topicPartition]bool // has left the node, as far as is known
	lifted  bool                    // there was a throttle, whose rates may still be set
	total   int
	drawn   bool
}

// ask runs one exchange with the cluster under the timeout.
func (d *drain) ask(ctx context.Context, fn func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	err := fn(limited)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return fmt.Errorf("no answer within %s; the same command goes on from here", d.timeout)
	}
	return err
}

// plan looks at the cluster and finds what is left to do.
func (d *drain) plan(ctx context.Context) (view *clusterView, plan drainPlan, err error) {
	err = d.ask(ctx, func(ctx context.Context) error {
		if view, err = viewCluster(ctx, d.client); err != nil {
			return err
		}
		if n := view.node(d.id); n == nil || !n.broker {
			return fmt.Errorf("there is no broker %d", d.id)
		}
		plan, err = planDrain(view, d.id, d.flags.fewer)
		return err
	})
	return view, plan, err
}

func (d *drain) run(ctx context.Context) error {
	view, plan, err := d.plan(ctx)
	switch {
	case d.flags.cancel && view != nil && view.node(d.id) != nil:
		return d.takeBack(ctx, plan) // also of a plan that cannot be carried out
	case err != nil:
		return err
	case d.flags.dryRun:
		return d.show(plan)
	}
	if d.flags.throttle == 0 {
		if err := d.ask(ctx, d.unlimit); err != nil {
			return err
		}
	}
	for !plan.empty() {
		if err := d.goesOn(plan); err != nil {
			return err
		}
		if d.flags.throttle > 0 {
			if err := d.ask(ctx, func(ctx context.Context) error { return d.limit(ctx, view, plan) }); err != nil {
				return err
			}
		}
		if err := d.carryOut(ctx, plan); err != nil {
			return err
		}
		if view, plan, err = d.planAfterMoves(ctx); err != nil {
			return err
		}
	}
	if err := d.ask(ctx, d.unlimit); err != nil {
		return err
	}
	fmt.Fprintf(d.std.out, "drained %d: %d partitions moved\n", d.id, len(d.done))
	return nil
}

// lagBound is how long a broker may take to show what the controller has told already.
const lagBound = 10 * time.Second

// planAfterMoves plans anew. The broker that is asked about topics may not have heard yet of
// moves that the controller says are over.
func (d *drain) planAfterMoves(ctx context.Context) (view *clusterView, plan drainPlan, err error) {
	pause := time.NewTicker(drainPause)
	defer pause.Stop()
	for deadline := time.Now().Add(lagBound); ; {
		view, plan, err = d.plan(ctx)
		if err != nil || d.isBack(plan) == nil || time.Now().After(deadline) {
			return view, plan, err
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return nil, plan, ctx.Err()
		}
	}
}

// isBack is a move of a plan that was made already; nil: none.
func (d *drain) isBack(plan drainPlan) *move {
	for i, m := range plan.moves {
		if d.done[m.topicPartition] {
			return &plan.moves[i]
		}
	}
	return nil
}

// goesOn tells whether a plan leads further. What one leaves over is topics made meanwhile,
// or what somebody else has moved back.
func (d *drain) goesOn(plan drainPlan) error {
	if m := d.isBack(plan); m != nil {
		return fmt.Errorf("%s is back on node %d: somebody has taken back its move", m.topicPartition, d.id)
	}
	if len(plan.moves)+len(plan.leaving) == 0 {
		return errors.Join(append(plan.stuck, fmt.Errorf("node %d keeps %d partitions", d.id, len(plan.stuck)))...)
	}
	return nil
}

// show prints a plan.
func (d *drain) show(plan drainPlan) error {
	for _, p := range sortedPartitions(plan.leaving) {
		fmt.Fprintf(d.std.out, "moving already %s to %s\n", p, nodes(plan.leaving[p].target()))
	}
	for _, m := range plan.moves {
		fmt.Fprintln(d.std.out, "would move", m)
	}
	if plan.empty() {
		fmt.Fprintf(d.std.out, "node %d has no partitions\n", d.id)
	}
	return errors.Join(plan.stuck...)
}

// drainPause lies between two looks at moves that are under way.
const drainPause = 250 * time.Millisecond

// carryOut makes the moves of a plan, some at a time, and waits for those under way.
func (d *drain) carryOut(ctx context.Context, plan drainPlan) error {
	pause := time.NewTicker(drainPause)
	defer pause.Stop()
	todo, under := plan.moves, map[topicPartition][]int32{}
	for p, r := range plan.leaving {
		under[p] = r.target()
	}
	d.total = len(d.done) + len(todo) + len(under)
	defer d.endProgress()
	for {
		n := min(len(todo), max(0, d.flags.parallel-len(under)))
		if err := d.start(ctx, todo[:n], under); err != nil {
			return err
		}
		if todo = todo[n:]; len(todo)+len(under) == 0 {
			return nil
		}
		d.draw(len(under))
		select {
		case <-pause.C:
		case <-ctx.Done():
			d.endProgress()
			fmt.Fprintf(d.std.err, "%d partitions go on moving, %d have not begun; the same command goes on from here, --cancel takes them back\n",
				len(under), len(todo))
			return ctx.Err()
		}
		var moving map[topicPartition]reassignment
		if err := d.ask(ctx, func(ctx context.Context) (err error) {
			moving, err = listReassignments(ctx, d.client)
			return err
		}); err != nil {
			return err
		}
		for _, p := range sortedPartitions(under) {
			if _, goesOn := moving[p]; !goesOn {
				d.endProgress()
				d.done[p] = true
				fmt.Fprintf(d.std.out, "moved %s to %s\n", p, nodes(under[p]))
				delete(under, p)
			}
		}
	}
}

// start begins moves and notes them in under.
func (d *drain) start(ctx context.Context, moves []move, under map[topicPartition][]int32) error {
	if len(moves) == 0 {
		return nil
	}
	var req kadm.AlterPartitionAssignmentsReq
	for _, m := range moves {
		req.Assign(m.topic, m.partition, m.to)
	}
	return d.ask(ctx, func(ctx context.Context) error {
		answers, err := kadm.NewClient(d.client).AlterPartitionAssignments(ctx, req)
		if err != nil {
			return err
		}
		var failed []error
		for _, m := range moves {
			answer, answered := answers[m.topic][m.partition]
			switch {
			case !answered:
				failed = append(failed, fmt.Errorf("%s: %w", m.topicPartition, errNoAnswer))
			case errors.Is(answer.Err, kerr.UnknownTopicOrPartition): // deleted since
			case answer.Err != nil:
				failed = append(failed, fmt.Errorf("%s: %w", m.topicPartition, refused(answer.Err, answer.ErrMessage)))
			default:
				under[m.topicPartition] = m.to
			}
		}
		return errors.Join(failed...)
	})
}

// takeBack cancels what is under way.
func (d *drain) takeBack(ctx context.Context, plan drainPlan) error {
	var req kadm.AlterPartitionAssignmentsReq
	for p := range plan.leaving {
		req.CancelAssign(p.topic, p.partition)
	}
	return d.ask(ctx, func(ctx context.Context) error {
		answers, err := kadm.NewClient(d.client).AlterPartitionAssignments(ctx, req)
		if err != nil {
			return err
		}
		var failed []error
		for _, answer := range answers.Sorted() {
			name := topicPartition{answer.Topic, answer.Partition}
			switch err := answer.Err; {
			case errors.Is(err, kerr.NoReassignmentInProgress): // it has arrived since
			case err != nil:
				failed = append(failed, fmt.Errorf("%s: %w", name, refused(err, answer.ErrMessage)))
			default:
				fmt.Fprintln(d.std.out, "cancelled", name)
			}
		}
		return errors.Join(append(failed, d.unlimit(ctx))...)
	})
}

// draw shows on a terminal how far it is.
func (d *drain) draw(moving int) {
	if !isTerminal(d.std.err) {
		return
	}
	d.drawn = true
	fmt.Fprintf(d.std.err, "\r\x1b[K%d of %d partitions moved, %d moving", len(d.done), d.total, moving)
}

func (d *drain) endProgress() {
	if d.drawn {
		fmt.Fprint(d.std.err, "\r\x1b[K")
		d.drawn = false
	}
}

// alterEach has several resources' configurations changed in one request.
func alterEach(ctx context.Context, client *kgo.Client, changes []kmsg.IncrementalAlterConfigsRequestResource) error {
	if len(changes) == 0 {
		return nil
	}
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Resources = changes
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return err
	}
	var failed []error
	for _, r := range resp.Resources {
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition) {
			failed = append(failed, fmt.Errorf("%s: %w", r.ResourceName, refused(err, text(r.ErrorMessage))))
		}
	}
	return errors.Join(failed...)
}
