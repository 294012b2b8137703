package broker

import "testing"

func TestMemoryLimit(t *testing.T) {
	const (
		meminfo = "MemTotal:       16000000 kB\nMemFree:         1000 kB\n"
		machine = 16000000 << 10
	)
	for name, c := range map[string]struct {
		files map[string]string
		want  uint64
	}{
		"nobody knows":  {nil, 0},
		"the machine's": {map[string]string{"/proc/meminfo": meminfo}, machine},
		"a container": {map[string]string{
			"/proc/meminfo": meminfo, "/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/memory.max": "536870912\n",
		}, 512 << 20},
		"no limit": {map[string]string{
			"/proc/meminfo": meminfo, "/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/memory.max": "max\n",
		}, machine},
		"a service in a slice": {map[string]string{
			"/proc/meminfo": meminfo, "/proc/self/cgroup": "0::/system.slice/klamm.service\n",
			"/sys/fs/cgroup/system.slice/memory.max":               "1073741824",
			"/sys/fs/cgroup/system.slice/klamm.service/memory.max": "max",
		}, 1 << 30},
		"version 1": {map[string]string{
			"/proc/meminfo": meminfo, "/proc/self/cgroup": "9:name=systemd:/\n4:cpu,memory:/docker/abc\n0::/\n",
			"/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes": "268435456\n",
			"/sys/fs/cgroup/memory/memory.limit_in_bytes":            "9223372036854771712\n",
		}, 256 << 20},
		"version 1, seen from inside": {map[string]string{
			"/proc/meminfo": meminfo, "/proc/self/cgroup": "4:memory:/docker/abc\n",
			"/sys/fs/cgroup/memory/memory.limit_in_bytes": "268435456\n",
		}, 256 << 20},
		"nonsense": {map[string]string{
			"/proc/meminfo": "MemTotal: x kB\n", "/proc/self/cgroup": "nonsense\n::\n",
		}, 0},
	} {
		if got := memoryLimit(func(name string) string { return c.files[name] }); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

func TestFrameMemory(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		configured int64
		largest    int32
		memory     uint64
		queued     int64
		request    int32
	}{
		{-1, 100 * mib, 0, -1, 100 * mib},
		{-1, 100 * mib, 64 << 30, 64 * mib, 100 * mib},
		{-1, 100 * mib, 64 * mib, 16 * mib, 16 * mib}, // a small container
		{-1, mib, 64 * mib, 16 * mib, mib},
		{-1, 200 * mib, 64 << 30, 64 * mib, 200 * mib},
		{200 * mib, 200 * mib, 64 * mib, 200 * mib, 200 * mib}, // who says so gets it
	} {
		queued, request := frameMemory(c.configured, c.largest, c.memory)
		if queued != c.queued || request != c.request {
			t.Errorf("queued.max.request.bytes=%d, socket.request.max.bytes=%d with %d bytes: %d and %d, want %d and %d",
				c.configured, c.largest, c.memory, queued, request, c.queued, c.request)
		}
	}
}
