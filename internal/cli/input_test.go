package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestInputPassesEverythingOn(t *testing.T) {
	text := strings.Repeat("0123456789", 100_000)
	p := new(Progress)
	got, err := io.ReadAll(Input(t.Context(), iotest.HalfReader(strings.NewReader(text)), p))
	require.NoError(t, err)
	require.Equal(t, text, string(got))
	require.Equal(t, int64(len(text)), p.bytes.Load())
	bad := errors.New("bad sector")
	_, err = io.ReadAll(Input(t.Context(), iotest.ErrReader(bad), nil))
	require.ErrorIs(t, err, bad)
}

func TestInputEndsWithTheContext(t *testing.T) {
	silent, other, err := os.Pipe()
	require.NoError(t, err)
	defer other.Close()
	ctx, cancel := context.WithCancel(t.Context())
	input := Input(ctx, silent, nil)
	time.AfterFunc(10*time.Millisecond, cancel)
	_, err = input.Read(make([]byte, 10))
	require.ErrorIs(t, err, context.Canceled)
}

func TestInputIsAFileWhereItCanBe(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	require.NoError(t, err)
	defer f.Close()
	require.Same(t, f, Input(t.Context(), f, nil))
}
