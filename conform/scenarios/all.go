package scenarios

import (
	"slices"

	"github.com/klamm-mq/klamm/conform"
)

// All are the scenarios in the order of their files.
func All() []conform.Scenario {
	return slices.Concat(
		produce(),
		administration(),
		fetch(),
		listOffsets(),
		offsetCommit(),
		offsetFetch(),
		findCoordinator(),
		classicGroups(),
		manageGroups(),
		deleteRecords(),
		initProducerID(),
		offsetForLeaderEpoch(),
		describeProducers(),
		transactions(),
		newGroups(),
	)
}
