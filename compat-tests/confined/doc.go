// Package confined runs brokers where there is little: 64 MB of memory and half a core, a
// read-only root with one writable directory on tmpfs, an empty root with the variables of
// the apache/kafka image, and as a user who may not write everywhere. It needs root, and
// util-linux.
package confined
