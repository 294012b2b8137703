// Package crash kills a broker with SIGKILL again and again while three client programs
// write, others read along and create and delete topics, and then holds what the broker
// serves against what it had told its clients:
//
//   - an acknowledged record is there once, whole, at the offset that was answered, and
//     after the records that its writer sent before it;
//   - a reader saw no gap, no step back, and no record that is gone or elsewhere now;
//   - a topic whose creation was answered is there under the same id, one whose deletion
//     was answered is not.
//
// Some kills come while the broker is still starting. KILLS says how many there are,
// SEED repeats the choice of their moments (not what the clients do at these moments),
// and EVIDENCE names a file to which a line about each run is added.
package crash
