// Package verdict says what the tests of a suite are expected to come out as, and where a
// run came out otherwise.
//
// A list has a line for each test: its verdict on Klamm, its verdict on Apache Kafka 4.4,
// its name, and behind a # the reason of an exception. A line "package ./x" says which
// package the tests below it belong to:
//
//	package ./pkg/kgo
//	pass pass TestPing
//	skip pass TestShareGroup # share groups
//	fail pass TestTxnEtl # transactions
//	fail pass TestAdmin # its subtest
//	fail pass TestAdmin/SCRAM # SCRAM credentials
//
// A test that is not in the list is a deviation. A subtest that is not in the list passes;
// those of a test that is expected to fail, and has none in the list, may do as they like.
// The verdict "chance" says that a test passes at times and fails at others, whatever the
// broker does.
// Every line that is not "pass pass" has a reason.
package verdict
