// Package metadata holds what the cluster has decided: the records of the metadata log,
// the immutable Image that they build, and the Delta between two images.
package metadata
