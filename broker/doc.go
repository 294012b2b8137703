// Package broker builds one broker from its configuration and the world it lives in,
// and is what programs import that embed one:
//
//	b, err := broker.Start(ctx, configs.Default(), broker.DefaultEnv())
//	defer b.Stop(ctx)
//	// clients connect to b.Addr("PLAINTEXT")
//
// A test has it shorter with package brokertest: brokertest.Start(t).
//
// Nothing below this package reads the configuration of a broker as a whole, opens a
// listener, or asks for the time of day, randomness or a file system other than those
// in Env, so a test runs the production code on an in-memory network and a disk that
// loses power.
//
// # Order
//
// Start opens from the inside to the outside, and Stop closes in the opposite order:
//
//	directories   lock, identity, checkpoints
//	listeners     bound, not accepting: a port that is taken is found out early
//	metadata log  Raft; its publishers make the configuration that is set while brokers
//	              run, open the partition logs, tell the coordinators which partitions
//	              are theirs, take the quotas of clients, and swap the image
//	controller    decides while this node leads the metadata log
//	cluster       where there may be other nodes: they are let in, and the members found;
//	              the listeners of controllers and of brokers open here, but only what
//	              belongs to that is answered (gate)
//	node          registers, which gives each partition a new leader epoch; heartbeats
//	wire server   accepts; then the broker is ready
//
// A node that is a quorum of its own knows its metadata before it registers. Any other one
// first registers: only then does it know which metadata is new enough to act on, and opens
// its partitions. A controller that is no broker has neither partitions nor a registration.
//
// The coordinators end before the server does, since a client that joins a group may wait
// for minutes and is sent away then.
//
// A failure on the way undoes what has been done.
//
// Parts that follow a changed configuration ask dynamicConfig when they need a value, or are
// called by it (onChange). Each part has a logger of its own name, whose level can be
// changed (loggers).
package broker
