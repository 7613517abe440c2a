package device

import (
	"cmp"
	"iter"
	"slices"
)

// failed is an iteration that yields only an error.
func failed(err error) iter.Seq2[Segment, error] {
	return func(yield func(Segment, error) bool) { yield(Segment{}, err) }
}

// each yields the elements of a list.
func each(list []Segment) iter.Seq2[Segment, error] {
	return func(yield func(Segment, error) bool) {
		for _, s := range list {
			if !yield(s, nil) {
				return
			}
		}
	}
}

// pageRuns are the pages of a list that hold data, one segment each.
func pageRuns(pages []pageAt) []Segment {
	var list []Segment
	for _, p := range pages {
		if !p.zero {
			list = append(list, Segment{p.index * pageSize, pageSize})
		}
	}
	return list
}

// join merges the neighbours of an ascending list.
func join(list []Segment) []Segment {
	out := list[:0]
	for _, s := range list {
		if k := len(out); k > 0 && out[k-1].End() >= s.Off {
			out[k-1].Len = max(out[k-1].End(), s.End()) - out[k-1].Off
		} else {
			out = append(out, s)
		}
	}
	return out
}

// clip cuts an ascending list down to n bytes at off.
func clip(list []Segment, off, n int64) []Segment {
	out := list[:0]
	for _, s := range list {
		start, end := max(s.Off, off), min(s.End(), off+n)
		if start < end {
			out = append(out, Segment{start, end - start})
		}
	}
	return out
}

// without appends to list the parts of s that no page of the ascending list
// pages covers.
func without(list []Segment, s Segment, pages []pageAt) []Segment {
	i, _ := slices.BinarySearchFunc(pages, s.Off/pageSize, func(p pageAt, index int64) int {
		return cmp.Compare(p.index, index)
	})
	for ; i < len(pages) && pages[i].index*pageSize < s.End(); i++ {
		start := pages[i].index * pageSize
		if s.Off < start {
			list = append(list, Segment{s.Off, start - s.Off})
		}
		end := max(s.End(), start+pageSize)
		s = Segment{start + pageSize, end - start - pageSize}
	}
	if s.Len > 0 {
		list = append(list, s)
	}
	return list
}
