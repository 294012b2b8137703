// Package harness runs the klamm binary as its users do: a process with a data
// directory, a port, standard error to read and signals to send.
package harness
