package handlers

// Bits of an authorized-operations field are 1 << the code of an ACL operation. Without
// an authorizer everybody may do what the resource knows (Kafka's AclEntry).
const (
	opRead            = 3
	opWrite           = 4
	opCreate          = 5
	opDelete          = 6
	opAlter           = 7
	opDescribe        = 8
	opClusterAction   = 9
	opDescribeConfigs = 10
	opAlterConfigs    = 11
	opIdempotentWrite = 12

	topicOperations int32 = 1<<opRead | 1<<opWrite | 1<<opCreate | 1<<opDescribe | 1<<opDelete |
		1<<opAlter | 1<<opDescribeConfigs | 1<<opAlterConfigs
	groupOperations int32 = 1<<opRead | 1<<opDescribe | 1<<opDelete | 1<<opDescribeConfigs | 1<<opAlterConfigs

	clusterOperations int32 = 1<<opCreate | 1<<opClusterAction | 1<<opDescribeConfigs | 1<<opAlterConfigs |
		1<<opIdempotentWrite | 1<<opAlter | 1<<opDescribe
)
