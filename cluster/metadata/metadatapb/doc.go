// Package metadatapb is the protobuf form of metadata records, log entries and snapshots,
// generated from metadata.proto. Only cluster/metadata uses it; everybody else speaks in
// the records of that package.
package metadatapb

//go:generate sh -c "cd ../../.. && mkdir -p .bin && go build -o .bin/protoc-gen-go google.golang.org/protobuf/cmd/protoc-gen-go && protoc --plugin=.bin/protoc-gen-go --go_out=. --go_opt=paths=source_relative cluster/metadata/metadatapb/metadata.proto && rm .bin/protoc-gen-go && rmdir --ignore-fail-on-non-empty .bin"
