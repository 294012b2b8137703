// Package fetchenc encodes Fetch responses without touching the records in them.
//
// kmsg's AppendTo copies every record batch into one buffer. Here the response becomes
// skeleton bytes with regions between them, which the connection sends on with sendfile
// where it can:
//
//	skeleton                               region            skeleton          region
//	┌───────┬───────┬───────────┬────────┐┌─────────────────┐┌──────┬────────┐┌─────────┐┌──────┐
//	│ head  │ topic │ partition │ length ││ records (file)  ││ tags │ … len. ││ records ││ tags │
//	└───────┴───────┴───────────┴────────┘└─────────────────┘└──────┴────────┘└─────────┘└──────┘
//
// Sent in this order the pieces are, byte for byte, what kmsg would have encoded from
// the same response with the regions' bytes in RecordBatches, in versions 4 to 18, tagged
// fields included. Tests and a fuzzer hold it to that. The one difference is intended:
// where kmsg writes null records, Append writes empty ones, as Kafka does to protect its
// clients (FetchResponse.of).
//
// The encoder is a loop over stages that stops after each records length and is
// resumed behind the region; see encoder.step. No goroutines, no state between calls.
package fetchenc
