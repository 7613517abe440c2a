package format

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// fieldBytes is n bytes of which no two neighbours are equal and none is zero.
func fieldBytes(n int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, n)
	for i := range b {
		for b[i] == 0 || i > 0 && b[i] == b[i-1] {
			b[i] = byte(r.Uint32())
		}
	}
	return b
}

// fieldPlace is where a field lies: one or more pieces, the low one first.
type fieldPlace []struct{ off, size int }

// parsePlaces reads lines of the form "Name off:size [off:size]", in hexadecimal.
func parsePlaces(t *testing.T, table string) map[string]fieldPlace {
	places := map[string]fieldPlace{}
	for line := range strings.Lines(table) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		place := make(fieldPlace, len(words)-1)
		for i, word := range words[1:] {
			_, err := fmt.Sscanf(word, "%x:%x", &place[i].off, &place[i].size)
			require.NoError(t, err, line)
		}
		places[words[0]] = place
	}
	return places
}

// bytes is what the field holds in b.
func (p fieldPlace) bytes(b []byte) (list []byte) {
	for _, piece := range p {
		list = append(list, b[piece.off:piece.off+piece.size]...)
	}
	return list
}

// checkFields holds the getters and setters of a view of n bytes to a table of
// places: each getter reads its bytes and no others, each setter changes these
// and no others, and each pair of a getter and a setter is in the table.
func checkFields[V ~[]byte](t *testing.T, n int, prepare func(V), table string, others ...string) {
	places := parsePlaces(t, table)
	view := V(fieldBytes(n))
	prepare(view)
	for name, place := range places {
		getter := reflect.ValueOf(view).MethodByName(name)
		require.True(t, getter.IsValid(), name)
		value := getter.Call(nil)[0]
		require.Equal(t, place.bytes(view), valueBytes(value, len(place.bytes(view))), name)

		blank := V(make([]byte, n))
		prepare(blank)
		want := append(V(nil), blank...)
		from := place.bytes(view)
		for _, piece := range place {
			copy(want[piece.off:piece.off+piece.size], from)
			from = from[piece.size:]
		}
		reflect.ValueOf(blank).MethodByName("Set" + name).Call([]reflect.Value{value})
		require.Equal(t, want, blank, "Set%s", name)
	}
	for i := range reflect.TypeFor[V]().NumMethod() {
		if name, ok := strings.CutPrefix(reflect.TypeFor[V]().Method(i).Name, "Set"); ok && places[name] == nil {
			require.Contains(t, others, name, "no place of this field in the test's table")
		}
	}
}

// valueBytes is a value as it lies on disk in size bytes.
func valueBytes(v reflect.Value, size int) []byte {
	switch v.Kind() {
	case reflect.String:
		return []byte(v.String())
	case reflect.Array:
		b, err := binary.Append(nil, binary.LittleEndian, v.Interface())
		if err != nil {
			panic(err)
		}
		return b
	default:
		b := binary.LittleEndian.AppendUint64(nil, v.Uint())
		if len(b) > size && strings.Trim(string(b[size:]), "\x00") == "" {
			b = b[:size]
		}
		return b
	}
}

func TestFieldTypes(t *testing.T) {
	b := []byte{0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0xfe}
	require.Equal(t, uint8(0x23), u8(1).get(b))
	require.Equal(t, uint16(0x4523), le16(1).get(b))
	require.Equal(t, uint32(0x89674523), le32(1).get(b))
	require.Equal(t, uint64(0xfeefcdab89674523), le64(1).get(b))
	require.Equal(t, uint16(0x2345), be16(1).get(b))
	require.Equal(t, uint32(0x23456789), be32(1).get(b))
	require.Equal(t, uint64(0x23456789abcdeffe), be64(1).get(b))
	require.Equal(t, [4]byte{0x23, 0x45, 0x67, 0x89}, bytes4(1).get(b))
}

func TestFieldTypesPut(t *testing.T) {
	tests := []struct {
		put  func(b []byte)
		want []byte
	}{
		{func(b []byte) { u8(1).put(b, 0xa1) }, []byte{0, 0xa1, 0, 0, 0, 0, 0, 0, 0, 0}},
		{func(b []byte) { le16(1).put(b, 0xa1b2) }, []byte{0, 0xb2, 0xa1, 0, 0, 0, 0, 0, 0, 0}},
		{func(b []byte) { le32(1).put(b, 0xa1b2c3d4) }, []byte{0, 0xd4, 0xc3, 0xb2, 0xa1, 0, 0, 0, 0, 0}},
		{func(b []byte) { le64(1).put(b, 0xa1b2c3d4e5f60718) },
			[]byte{0, 0x18, 0x07, 0xf6, 0xe5, 0xd4, 0xc3, 0xb2, 0xa1, 0}},
		{func(b []byte) { be16(1).put(b, 0xa1b2) }, []byte{0, 0xa1, 0xb2, 0, 0, 0, 0, 0, 0, 0}},
		{func(b []byte) { be32(1).put(b, 0xa1b2c3d4) }, []byte{0, 0xa1, 0xb2, 0xc3, 0xd4, 0, 0, 0, 0, 0}},
		{func(b []byte) { be64(1).put(b, 0xa1b2c3d4e5f60718) },
			[]byte{0, 0xa1, 0xb2, 0xc3, 0xd4, 0xe5, 0xf6, 0x07, 0x18, 0}},
		{func(b []byte) { bytes4(1).put(b, [4]byte{1, 2, 3, 4}) }, []byte{0, 1, 2, 3, 4, 0, 0, 0, 0, 0}},
	}
	for i, test := range tests {
		b := make([]byte, 10)
		test.put(b)
		require.Equal(t, test.want, b, i)
	}
}

func TestText(t *testing.T) {
	b := []byte("abcdefgh")
	putText(b, "xyz")
	require.Equal(t, "xyz\x00\x00\x00\x00\x00", string(b))
	require.Equal(t, "xyz", text(b))
	putText(b, "0123456789")
	require.Equal(t, "01234567", text(b))
}

func TestTidBefore(t *testing.T) {
	require.True(t, Tid(1).Before(2))
	require.False(t, Tid(2).Before(2))
	require.True(t, Tid(0xffffffff).Before(3))
	require.False(t, Tid(3).Before(0xffffffff))
}
