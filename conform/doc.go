// Package conform holds any broker that speaks Kafka's protocol beside Apache Kafka 4.4,
// request by request and field by field.
//
// A [Scenario] is a short program that sends requests as raw frames and names each step.
// Whatever comes back, an answer, silence or a closed connection, becomes one [Step] of
// a [Transcript]: lines of text in which everything that may differ between two correct
// brokers (ids, times, addresses, generated names, the order of sets) is replaced by a
// symbol. Two transcripts of the same scenario are then compared line by line.
//
//	Scenario ──▶ R ── frames ──▶ broker under test
//	              │◀─ answer ───┘
//	              └─ render, normalise ─▶ Transcript ─┐
//	                         recorded Kafka 4.4 ──────┴─ Compare ─▶ Differences
//	                                                                   │ explained.txt
//	                                                                   ▼ Report
//
// The other side of a comparison is either a second broker that runs at the same time or
// the transcripts that were recorded from Apache Kafka 4.4 (package transcripts).
//
// Scenarios live in package scenarios, a file for each group of APIs. A scenario whose
// APIs the broker does not advertise is not run; it is listed as such. Times that a
// scenario sends lie an hour before its start ([R.T]), so that they are told apart from
// the broker's own clock.
//
// The package shares no code with the broker: it has its own framing, and its own batch
// builder and reader, on the message types of kmsg.
//
// Goroutines: one for each scenario that is running. An R belongs to its goroutine.
package conform
