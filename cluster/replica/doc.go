// Package replica is what this broker does with the partitions that it has a replica
// of: append, read, decide what is acknowledged, follow or lead.
//
// Handlers see one type, Manager:
//
//	Append(*AppendRequest) bool            // false: Done comes later
//	Fetch(context.Context, *FetchRequest)  // blocks up to MaxWait
//	ListOffsets(*ListOffsetsRequest)
//	OffsetForLeaderEpoch([]EpochRequestPartition)
//	OnMetadataUpdate(delta, image)         // a metadata publisher
//
// Requests name partitions by topic id, carry their own results, and fail partition by
// partition: there is no error of a whole request.
package replica
