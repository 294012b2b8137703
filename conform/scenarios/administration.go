package scenarios

import (
	"slices"

	"github.com/klamm-mq/klamm/conform"
)

// administration are the scenarios of the wire itself and of what administrators ask for.
func administration() []conform.Scenario {
	return slices.Concat(
		apiVersions(), rangesPerAPI(), wire(), wirePerAPI(), wireMutated(),
		metadata(), createTopics(), topicKeys(), manyTopics(), deleteTopics(), describeCluster(),
		saslOnPlaintext(), aclsWithoutAuthorizer(), tokensOnPlaintext(),
		describeConfigs(), alterConfigs(), incrementalAlterConfigs(), configResources(),
		logDirs(), createPartitions(), electLeaders(), reassignments(), describeTopicPartitions(),
		clientQuotas(), keptQuotas(), scramCredentials(), quorum(), updateFeatures(),
	)
}
