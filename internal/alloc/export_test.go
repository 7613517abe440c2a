package alloc

import (
	"fmt"

	"drydock/format"
)

// Verify holds what the Allocator keeps in memory against the disk. used are the
// blocks that the bitmaps mark; no Tx is open.
func (a *Allocator) Verify(used []bool) error {
	a.mu.Lock()
	defer a.unlock()
	pinned := 0
	for g, m := range a.maps {
		if err := a.verifyMap(m, used[a.geo.GroupFirst(g):][:m.blocks]); err != nil {
			return fmt.Errorf("group %d: %w", g, err)
		}
		if m.pins > 0 {
			pinned++
		}
	}
	if len(a.maps) != pinned+a.idle.Len() || len(a.maps) > max(a.maxMaps, pinned+1) {
		return fmt.Errorf("%d maps, %d of them pinned, %d idle", len(a.maps), pinned, a.idle.Len())
	}
	for g := range a.groups {
		if a.maps[format.Group(g)] == nil {
			if err := a.verifyGroup(format.Group(g), used); err != nil {
				return fmt.Errorf("group %d: %w", g, err)
			}
		}
	}
	return nil
}

// verifyMap checks a map in memory against the bits of its group on the disk.
func (a *Allocator) verifyMap(m *blockMap, used []bool) error {
	ahead := 0
	for i, u := range used {
		busy := m.busy.Test(i)
		if u && !busy {
			return fmt.Errorf("bit %d is used, but not busy", i)
		}
		if busy && !u {
			ahead++
		}
	}
	longest, free := 0, 0
	for _, n := range m.busy.Free(0, m.blocks) {
		longest, free = max(longest, n), free+n
	}
	s := a.groups[m.group]
	if m.pins != ahead || int(s.free) != free || int(a.longest.get(int(m.group))) < longest {
		return fmt.Errorf("%d bits are busy, %d pinned; %d free, counted %d; run of %d, known %d",
			ahead, m.pins, free, s.free, longest, a.longest.get(int(m.group)))
	}
	if (m.idle == nil) != (m.pins > 0) {
		return fmt.Errorf("%d pins, idle %v", m.pins, m.idle != nil)
	}
	return nil
}

// verifyGroup checks what is known of a group without a map.
func (a *Allocator) verifyGroup(g format.Group, used []bool) error {
	longest, run, free := 0, 0, 0
	for _, u := range used[a.geo.GroupFirst(g):][:a.geo.GroupBlocks(g)] {
		if run++; u {
			run = 0
		} else {
			free++
		}
		longest = max(longest, run)
	}
	if s := a.groups[g]; int(s.free) != free || int(a.longest.get(int(g))) < longest {
		return fmt.Errorf("no map: %d free, counted %d; run of %d, known %d", free, s.free, longest, a.longest.get(int(g)))
	}
	return nil
}

// Windows is how many windows are kept, and the most there may be.
func (a *Allocator) Windows() (n, most int) { return a.windows.list.Len(), a.windows.most }
