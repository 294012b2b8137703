// Package logstore is the log of one partition, and the directory that holds many.
package logstore
