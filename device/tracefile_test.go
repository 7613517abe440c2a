package device_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/device"
)

// doRandom changes a device at random, with marks.
func doRandom(t *testing.T, rng *rand.Rand, r *device.Recorder, n int) {
	for i := range n {
		off := rng.Int64N(r.Size())
		length := rng.Int64N(min(r.Size()-off, 9000)) + 1
		data := make([]byte, length)
		for j := range data {
			data[j] = byte(rng.Uint32())
		}
		var err error
		switch rng.IntN(7) {
		case 0:
			err = r.Flush()
		case 1:
			err = r.PunchHole(off, length)
		case 2:
			err = r.Discard(off, length)
		case 3:
			r.Mark(fmt.Sprintf("sync %d: /a\x00\xff", i))
		case 4:
			_, err = r.WriteFUA(data, off)
		case 5:
			_, err = r.WritevAt([][]byte{data[:length/2], data[length/2:]}, off)
		default:
			_, err = r.WriteAt(data, off)
		}
		require.NoError(t, err)
	}
}

// A trace comes out of a file as it went in, written at the end or as the
// events happen.
func TestTraceFile(t *testing.T) {
	for seed := range uint64(50) {
		kept := device.NewRecorder(device.NewMem(1 << 17))
		doRandom(t, rand.New(rand.NewPCG(seed, 1)), kept, 40)
		var whole bytes.Buffer
		require.NoError(t, device.WriteTrace(&whole, kept.Trace()))

		var streamed bytes.Buffer
		direct := device.NewRecorderTo(device.NewMem(1<<17), &streamed)
		doRandom(t, rand.New(rand.NewPCG(seed, 1)), direct, 40)
		require.NoError(t, direct.CloseTrace())
		require.True(t, bytes.Equal(whole.Bytes(), streamed.Bytes()), "seed %d", seed)

		got, err := device.ReadTrace(&streamed)
		require.NoError(t, err)
		require.Equal(t, kept.Trace(), got, "seed %d", seed)
	}
}

// Every prefix of a trace file gives the events before the cut, and every
// changed byte is noticed.
func TestTraceFileDamaged(t *testing.T) {
	kept := device.NewRecorder(device.NewMem(1 << 14))
	doRandom(t, rand.New(rand.NewPCG(3, 3)), kept, 12)
	var file bytes.Buffer
	require.NoError(t, device.WriteTrace(&file, kept.Trace()))
	whole := kept.Trace().Events
	step := max(1, file.Len()/2000)
	for cut := 0; cut < file.Len(); cut += step {
		got, err := device.ReadTrace(bytes.NewReader(file.Bytes()[:cut]))
		if err != nil {
			require.ErrorIs(t, err, device.ErrTrace)
		}
		require.LessOrEqual(t, len(got.Events), len(whole))
		for i, e := range got.Events {
			require.Equal(t, whole[i].Submit, e.Submit)
			require.Equal(t, whole[i].Data, e.Data)
		}
	}
	for at := 24; at < file.Len(); at += step {
		bad := bytes.Clone(file.Bytes())
		bad[at] ^= 0x40
		_, err := device.ReadTrace(bytes.NewReader(bad))
		require.ErrorIs(t, err, device.ErrTrace, "byte %d", at)
	}
}

// A trace file that cannot be written says so at its end; the device goes on.
func TestTraceFileWriteError(t *testing.T) {
	r := device.NewRecorderTo(device.NewMem(1<<20), fullWriter{})
	for range 100 {
		_, err := r.WriteAt(make([]byte, 8192), 0)
		require.NoError(t, err)
	}
	require.ErrorIs(t, r.CloseTrace(), io.ErrShortWrite)
}

type fullWriter struct{}

func (fullWriter) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func FuzzReadTrace(f *testing.F) {
	kept := device.NewRecorder(device.NewMem(1 << 12))
	_, _ = kept.WriteAt([]byte("data"), 7)
	kept.Mark("mark")
	var file bytes.Buffer
	_ = device.WriteTrace(&file, kept.Trace())
	f.Add(file.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		trace, err := device.ReadTrace(bytes.NewReader(b))
		if err == nil {
			var out bytes.Buffer
			require.NoError(t, device.WriteTrace(&out, trace))
		}
	})
}
