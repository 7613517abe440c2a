package dir

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/format"
)

// flat is the plainest Space.
type flat struct{ blocks [][]byte }

func (f *flat) NumBlocks() format.LBlock                  { return format.LBlock(len(f.blocks)) }
func (f *flat) Get(l format.LBlock) ([]byte, bool, error) { return f.blocks[l], true, nil }
func (f *flat) Change(l format.LBlock) ([]byte, error)    { return f.blocks[l], nil }
func (f *flat) Append() (n format.LBlock, b []byte, e error) {
	b = make([]byte, 4096)
	f.blocks = append(f.blocks, b)
	return format.LBlock(len(f.blocks) - 1), b, nil
}

func benchNames(n int) [][]byte {
	names := make([][]byte, n)
	for i := range names {
		names[i] = fmt.Appendf(nil, "file%06d", i)
	}
	return names
}

func filled(t testing.TB, names [][]byte) *Editor {
	e := newEditor(testOptions(4096), &flat{})
	require.NoError(t, e.Init(2))
	for i, name := range names {
		if err := e.Insert(name, format.Ino(12+i), format.FTRegular); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

// One round is a directory of 100,000 names.
func BenchmarkInsert100000(b *testing.B) {
	names := benchNames(100_000)
	b.ReportAllocs()
	for b.Loop() {
		filled(b, names)
	}
}

func BenchmarkLookupShared(b *testing.B) {
	names := benchNames(100_000)
	v := filled(b, names).view()
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if _, found, err := v.Lookup(names[i%len(names)]); !found || err != nil {
			b.Fatal(found, err)
		}
		i += 7919
	}
}

func BenchmarkRemoveInsert(b *testing.B) {
	names := benchNames(100_000)
	e := filled(b, names)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		name := names[i%len(names)]
		if err := e.Remove(name); err != nil {
			b.Fatal(err)
		}
		if err := e.Insert(name, 12, format.FTRegular); err != nil {
			b.Fatal(err)
		}
		i += 7919
	}
}
