// Package segment is one piece of a partition's log.
package segment
