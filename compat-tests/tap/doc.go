// Package tap is a proxy in front of a broker that reads along: which requests a client
// sends, in which version and with what in them. It can also lose an answer on its way.
//
// The broker's advertised address must be the tap's, so that clients come back to it.
// Requests of the client id Judge pass unseen: they are the test's own.
package tap
