// Package crash kills a broker with SIGKILL again and again while three client programs
// write, and then holds what it serves against what it had acknowledged: every
// acknowledged record is there once, at the offset that was answered, in order.
package crash
