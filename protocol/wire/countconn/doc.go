// Package countconn counts what connections do, for tests with a budget: so many reads
// and writes per request, and no more.
//
// [Listen] wraps a listener; the connections that it accepts add to its [Counts]. On a
// socket the calls that go past net.Conn, through its descriptor, are counted too: each
// time such a call is carried out is one, and each time it finds the socket not ready is
// a wait. Without goroutines and locks.
package countconn
