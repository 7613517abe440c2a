package build

import (
	"fmt"
	"os"
	"runtime"
	"strings"

	"drydock/format"
	"drydock/internal/mkfs"
)

// heapInUse is what is left on the heap after a collection, in bytes.
func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse
}

// residentNow and residentPeak are the memory of this process in bytes, now and
// at most; 0 where the host does not tell.
func residentNow() int64  { return statusBytes("VmRSS:") }
func residentPeak() int64 { return statusBytes("VmHWM:") }

func statusBytes(key string) int64 {
	b, _ := os.ReadFile("/proc/self/status")
	_, rest, _ := strings.Cut(string(b), key)
	var kib int64
	fmt.Sscan(rest, &kib)
	return kib << 10
}

// withoutPlaces is content without what may differ between scans: where
// names lie, and handles.
func withoutPlaces(c *mkfs.Content) any {
	type entry struct {
		name string
		node uint32
	}
	var entries []entry
	for _, e := range c.Entries {
		entries = append(entries, entry{string(c.Names.Get(e.Name)), e.Node})
	}
	nodes := append([]mkfs.Node(nil), c.Nodes...)
	targets := make(map[int]string)
	for i := range nodes {
		nodes[i].Source = 0
		if nodes[i].Mode&format.ModeType == format.ModeSymlink {
			targets[i] = string(c.Names.Get(mkfs.NameRef(nodes[i].First)))
			nodes[i].First = 0
		}
	}
	return []any{entries, nodes, targets, c.Ranges, c.Xattrs}
}
