package broker

import (
	"bufio"
	"math"
	"path"
	"strconv"
	"strings"

	"github.com/klamm-mq/klamm/protocol/wire"
)

// frameShare is the part of the machine's memory that requests of clients may take, where
// the configuration does not say.
const frameShare = 4

// frameMemory is queued.max.request.bytes and the largest request, for what is configured
// of the two. The broker's choice, for -1, is a quarter of the memory, but not more than
// what serves a thousand busy producers. Where that is less than socket.request.max.bytes
// a request as large would have the process killed: it is refused.
func frameMemory(configured int64, largest int32, memory uint64) (queued int64, request int32) {
	if configured > 0 || memory == 0 {
		return configured, largest
	}
	share := int64(min(memory/frameShare, math.MaxInt32))
	return min(share, wire.DefaultQueuedRequestBytes), int32(min(share, int64(largest)))
}

// bufferMemory is for wire.NewBuffers, before anything is configured: what frames may take
// then, and what large buffers need beyond that; 0, the default, if nobody knows the memory.
func bufferMemory(memory uint64) int {
	return int(min(memory/frameShare, wire.DefaultQueuedRequestBytes)) * 5 / 4
}

// memoryLimit is the memory that this process may use, in bytes: the machine's, or less
// if a control group of version 1 or 2 says so; 0 if nobody knows. read gives a file's
// content, "" if there is none.
func memoryLimit(read func(name string) string) uint64 {
	limit := firstOf(totalMemory(read("/proc/meminfo")), math.MaxUint64)
	for line := range strings.Lines(read("/proc/self/cgroup")) {
		// hierarchy:controllers:path, where version 2 has hierarchy 0 and no controllers
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(parts) != 3:
		case parts[0] == "0":
			limit = min(limit, groupLimit(read, "/sys/fs/cgroup", parts[2], "memory.max"))
		case strings.Contains(","+parts[1]+",", ",memory,"):
			limit = min(limit, groupLimit(read, "/sys/fs/cgroup/memory", parts[2], "memory.limit_in_bytes"))
		}
	}
	if limit == math.MaxUint64 {
		return 0
	}
	return limit
}

// groupLimit is the smallest limit of a group and those above it. Inside a container the
// path may be that of the host, and only the root of the mount can be read.
func groupLimit(read func(string) string, mount, group, file string) uint64 {
	limit := uint64(math.MaxUint64)
	for {
		n, err := strconv.ParseUint(strings.TrimSpace(read(path.Join(mount, group, file))), 10, 64)
		if err == nil { // not "max", not missing
			limit = min(limit, n)
		}
		if group == "/" || group == "." || group == "" {
			return limit
		}
		group = path.Dir(group)
	}
}

// totalMemory reads MemTotal, 0 if it is not there.
func totalMemory(meminfo string) uint64 {
	in := bufio.NewScanner(strings.NewReader(meminfo))
	for in.Scan() {
		fields := strings.Fields(in.Text())
		if len(fields) != 3 || fields[0] != "MemTotal:" {
			continue
		}
		kib, err := strconv.ParseUint(fields[1], 10, 54)
		if err != nil {
			return 0
		}
		return kib << 10
	}
	return 0
}

func firstOf(n, otherwise uint64) uint64 {
	if n == 0 {
		return otherwise
	}
	return n
}
