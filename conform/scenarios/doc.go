// Package scenarios holds what is asked of every broker: a file for each API, or group of
// them, named by its key.
//
// A scenario does the same for every broker and every outcome; what it learns (an offset,
// a member id) it passes on in variables. Most run all versions of their API through one
// case after the other, each step labelled with its version. A boundary, a null, a
// duplicate in one request, an unknown tag each deserves a step; so does every error code
// that Kafka can give, in the order of its checks.
//
// To add one: write the function, name it in its file's list, run
// `klamm conform --bootstrap KLAMM --reference KAFKA --run NAME`, and record it with
// `make oracle-record`.
package scenarios
