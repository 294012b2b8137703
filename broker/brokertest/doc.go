// Package brokertest gives tests a broker in a line: the production code, in the test's
// own process.
//
//	b := brokertest.Start(t)                                // on a port of 127.0.0.1
//	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addr("PLAINTEXT").String()))
//
// A test that wants to control the world takes a Machine instead: a network, a disk and
// randomness in memory, on which brokers start, stop and start again, also within a
// testing/synctest bubble, where all of it runs in virtual time:
//
//	m := brokertest.NewMachine(t)
//	m.Start(t)                                              // on broker-1:9092
//	client, err := kgo.NewClient(kgo.SeedBrokers(m.Addr()), kgo.Dialer(m.Dial))
//
// Without goroutines of its own; what Start started is stopped when the test ends.
package brokertest
