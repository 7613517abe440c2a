package format

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFeaturesNames(t *testing.T) {
	f := Features{
		Compat:   CompatHasJournal | CompatExtAttr | CompatResizeInode | CompatDirIndex | CompatOrphanFile | 1<<5<<15,
		Incompat: IncompatFiletype | IncompatRecover | IncompatExtents | Incompat64Bit | IncompatFlexBg | 1<<5 | 1<<17<<1,
		ROCompat: ROCompatSparseSuper | ROCompatLargeFile | ROCompatGDTCsum | ROCompatMetadataCsum | 1<<20,
	}
	require.Equal(t, "has_journal ext_attr resize_inode dir_index orphan_file FEATURE_C20 "+
		"filetype needs_recovery FEATURE_I5 extent 64bit flex_bg FEATURE_I18 "+
		"sparse_super large_file uninit_bg metadata_csum FEATURE_R20", f.String())
	require.Equal(t, Features{Compat: 1 << 20, Incompat: 1<<5 | 1<<18, ROCompat: 1 << 20}, f.Unknown())
	require.Empty(t, Features{}.Names())
}

// Each single bit has a name of its own that leads back to it.
func TestFeatureByNameAllBits(t *testing.T) {
	seen := map[string]bool{}
	for bit := range 32 {
		for _, f := range []Features{{Compat: 1 << bit}, {Incompat: 1 << bit}, {ROCompat: 1 << bit}} {
			name := f.Names()[0]
			require.False(t, seen[name], name)
			seen[name] = true
			back, err := FeatureByName(name)
			require.NoError(t, err)
			require.Equal(t, f, back, name)
		}
	}
	for alias, name := range map[string]string{"extents": "extent", "uninit_groups": "uninit_bg"} {
		f, err := FeatureByName(alias)
		require.NoError(t, err)
		require.Equal(t, name, f.String())
	}
	for _, name := range []string{"", "no_such", "FEATURE_I32", "+64bit"} {
		_, err := FeatureByName(name)
		require.ErrorContains(t, err, "unknown feature", name)
	}
}

func TestFeatureSets(t *testing.T) {
	a := Features{1, 2, 4}
	b := Features{1 | 8, 2, 4 | 16}
	require.True(t, b.Has(a))
	require.False(t, a.Has(b))
	require.True(t, a.Has(Features{}))
	require.Equal(t, b, a.With(b))
	require.Equal(t, Features{8, 0, 16}, b.Without(a))
	require.Equal(t, a, a.Common(b))
	require.True(t, b.HasCompat(8) && b.HasIncompat(2) && b.HasROCompat(20))
	require.False(t, b.HasCompat(10) || b.HasIncompat(3) || b.HasROCompat(1))
}

func TestFeaturesApply(t *testing.T) {
	base := Features{Compat: CompatHasJournal | CompatResizeInode, Incompat: IncompatExtents}
	tests := []struct{ spec, want string }{
		{"", "has_journal resize_inode extent"},
		{"+64bit,-resize_inode", "has_journal extent 64bit"},
		{"64bit,^has_journal", "resize_inode extent 64bit"},
		{"64bit, ^has_journal, +metadata_csum", "resize_inode extent 64bit metadata_csum"},
		{"none,filetype", "filetype"},
		{"FEATURE_I30", "has_journal resize_inode extent FEATURE_I30"},
		{"-quota", "has_journal resize_inode extent"},
	}
	for _, test := range tests {
		f, err := base.Apply(test.spec)
		require.NoError(t, err)
		require.Equal(t, test.want, f.String(), test.spec)
	}
	for _, spec := range []string{"+nonsense", "-", "+-64bit", "64bit,^^quota"} {
		f, err := base.Apply(spec)
		require.ErrorContains(t, err, "unknown feature", spec)
		require.Equal(t, base, f)
	}
}

func TestErrors(t *testing.T) {
	err := error(&DamagedError{Structure: "extent node", Block: 812, Offset: 0x1c, Detail: "depth 7, want at most 5"})
	require.EqualError(t, err, "extent node in block 812 at 0x1c: depth 7, want at most 5")
	require.ErrorIs(t, err, ErrDamaged)
	require.NotErrorIs(t, err, ErrUnsupported)
	require.EqualError(t, &DamagedError{Structure: "inode 12", Offset: -1, Detail: "x"}, "inode 12: x")

	err = &UnsupportedError{Features: Features{Incompat: IncompatEncrypt | 1<<30}, Detail: "cannot be written"}
	require.EqualError(t, err, "not supported: features encrypt FEATURE_I30: cannot be written")
	require.ErrorIs(t, err, ErrUnsupported)
	require.NotErrorIs(t, err, ErrDamaged)
	require.True(t, strings.HasPrefix((&UnsupportedError{}).Error(), "not supported"))
}
