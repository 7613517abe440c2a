package main

import (
	"os"
	"regexp"
	"sort"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"drydock/build"
	"drydock/internal/cli"
)

// parse reads flags as the command does, in an environment of one variable.
func parse(epoch string, args ...string) (build.Options, error) {
	var o options
	f := pflag.NewFlagSet("mkimg", pflag.ContinueOnError)
	o.flags(f)
	if err := f.Parse(args); err != nil {
		return build.Options{}, err
	}
	o.out = "out"
	return o.build(func(name string) (string, bool) { return epoch, name == epochVariable && epoch != "" })
}

// ptr returns a pointer to v.
func ptr[T any](v T) *T { return &v }

func TestFlags(t *testing.T) {
	id := [16]byte{0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 1, 2, 3, 4, 5, 6, 7, 8}
	const idText = "01234567-89ab-cdef-0102-030405060708"
	for _, c := range []struct {
		args []string
		want func(*build.Options)
	}{
		{nil, func(*build.Options) {}},
		{[]string{"--from", "a,b", "--from", "-"}, func(o *build.Options) { o.From = []string{"a,b", "-"} }},
		{[]string{"--size", "2G"}, func(o *build.Options) { o.Size = 2 << 30 }},
		{[]string{"--size=auto"}, func(o *build.Options) { o.Smallest = true }},
		{[]string{"--free", "64M"}, func(o *build.Options) { o.FreeBytes = 64 << 20 }},
		{[]string{"--free", "12.5%"}, func(o *build.Options) { o.FreePercent = 12.5 }},
		{[]string{"--free-inodes", "100"}, func(o *build.Options) { o.FreeInodes = 100 }},
		{[]string{"--inodes", "5000"}, func(o *build.Options) { o.Inodes = 5000 }},
		{[]string{"--block-size", "64K"}, func(o *build.Options) { o.BlockSize = 65536 }},
		{[]string{"--inode-size", "512"}, func(o *build.Options) { o.InodeSize = 512 }},
		{[]string{"--journal", "16M"}, func(o *build.Options) { o.Journal = 16 << 20 }},
		{[]string{"--journal", "none"}, func(o *build.Options) { o.NoJournal = true }},
		{[]string{"--journal", "auto"}, func(*build.Options) {}},
		{[]string{"--reserved", "5"}, func(o *build.Options) { o.Reserved = 5 }},
		{[]string{"--reserved", "0.5%"}, func(o *build.Options) { o.Reserved = 0.5 }},
		{[]string{"--profile", "compat"}, func(o *build.Options) { o.Profile = "compat" }},
		{[]string{"--features", "+orphan_file,-64bit"}, func(o *build.Options) { o.Features = "+orphan_file,-64bit" }},
		{[]string{"--label", "root"}, func(o *build.Options) { o.Label = "root" }},
		{[]string{"--uuid", idText}, func(o *build.Options) { o.UUID = &id }},
		{[]string{"--hash-seed", idText}, func(o *build.Options) { o.HashSeed = &id }},
		{[]string{"--epoch", "1700000000"}, func(o *build.Options) { o.Epoch = ptr(int64(1700000000)) }},
		{[]string{"--reproducible"}, func(o *build.Options) { o.Reproducible = true }},
		{[]string{"--owner", "0:0"}, func(o *build.Options) { o.Owner = "0:0" }},
		{[]string{"--map-owner", "1000:0", "--map-owner", "g:5:6:7"}, func(o *build.Options) { o.MapOwner = []string{"1000:0", "g:5:6:7"} }},
		{[]string{"--xattrs", "none"}, func(o *build.Options) { o.Xattrs = "none" }},
		{[]string{"--exclude", "*.o", "--exclude", "/tmp/"}, func(o *build.Options) { o.Exclude = []string{"*.o", "/tmp/"} }},
		{[]string{"--holes", "dig"}, func(o *build.Options) { o.Holes = build.HolesDig }},
		{[]string{"--whiteouts", "overlay"}, func(o *build.Options) { o.Whiteouts = build.WhiteoutsOverlay }},
		{[]string{"--partition", "gpt"}, func(o *build.Options) { o.Partition = build.PartitionGPT }},
		{[]string{"--offset", "1M"}, func(o *build.Options) { o.Offset = 1 << 20 }},
		{[]string{"--dry-run"}, func(o *build.Options) { o.DryRun = true }},
		{[]string{"-n", "-f"}, func(o *build.Options) { o.DryRun, o.Force = true, true }},
		{[]string{"--force", "--verify", "--sync", "--json"}, func(o *build.Options) { o.Force, o.Verify, o.Sync = true, true, true }},
		{[]string{"--skip-unreadable"}, func(o *build.Options) { o.SkipUnreadable = true }},
		{[]string{"--workers", "3"}, func(o *build.Options) { o.Workers = 3 }},
	} {
		want := build.Options{Out: "out", Profile: "default", Xattrs: "keep", Holes: build.HolesPreserve, Partition: build.PartitionNone}
		c.want(&want)
		got, err := parse("", c.args...)
		require.NoError(t, err, c.args)
		require.Equal(t, want, got, c.args)
	}
}

func TestEveryProfileThatHelpNamesExists(t *testing.T) {
	command := newCommand(&cli.Env{Name: "mkimg"})
	_, names, _ := strings.Cut(command.Flags().Lookup("profile").Usage, "features: ")
	require.Len(t, strings.Split(names, ", "), 5)
	for name := range strings.SplitSeq(names, ", ") {
		_, err := parse("", "--profile", name)
		require.NoError(t, err)
	}
	_, err := parse("", "--profile", "nonsense")
	require.ErrorContains(t, err, "nonsense")
}

func TestSourceDateEpoch(t *testing.T) {
	o, err := parse("1600000000")
	require.NoError(t, err)
	require.Equal(t, int64(1600000000), *o.Epoch)
	o, err = parse("1600000000", "--epoch", "5")
	require.NoError(t, err)
	require.Equal(t, int64(5), *o.Epoch, "the flag goes before the environment")
	_, err = parse("yesterday")
	require.EqualError(t, err, `SOURCE_DATE_EPOCH: "yesterday" is not a number of seconds from 0 to 15032385535`)
}

func TestFlagsRefuse(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--size", "0"}, "a size of 0 holds nothing"},
		{[]string{"--size", "big"}, `"big" is not a size`},
		{[]string{"--free", "1001%"}, "is not a percentage"},
		{[]string{"--journal", "0"}, "a journal of 0 bytes is none"},
		{[]string{"--journal", "off"}, `"off" is not a size`},
		{[]string{"--reserved", "x"}, "is not a percentage"},
		{[]string{"--uuid", "1-2"}, `"1-2" is not a UUID`},
		{[]string{"--epoch", "-1"}, "is not a number of seconds"},
		{[]string{"--epoch", "99999999999"}, "is not a number of seconds"},
		{[]string{"--features", "+warp"}, "--features: "},
		{[]string{"--owner", "root:root"}, "--owner: "},
		{[]string{"--map-owner", "1"}, "--map-owner: "},
		{[]string{"--xattrs", "["}, "--xattrs: "},
		{[]string{"--exclude", "/"}, "--exclude: "},
		{[]string{"--holes", "keep"}, `--holes: holes "keep": want`},
		{[]string{"--whiteouts", "drop"}, `--whiteouts: whiteouts "drop": want`},
		{[]string{"--partition", "apm"}, `--partition: "apm" is none of`},
		{[]string{"--partition", "gpt", "--offset", "1M"}, "--offset and --partition exclude each other"},
		{[]string{"--workers", "-1"}, "--workers: -1 workers cannot work"},
		{[]string{"--from", "-", "--from", "-"}, "--from: stdin can be read once"},
	} {
		_, err := parse("", c.args...)
		require.ErrorContains(t, err, c.want, c.args)
	}
	_, err := parse("", "--owner", "x", "--partition", "y")
	require.ErrorContains(t, err, "--owner")
	require.ErrorContains(t, err, "--partition", "all that is wrong is said at once")
}

// TestReadmeListsTheFlags holds README's table of flags to the command's flags.
func TestReadmeListsTheFlags(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	var listed []string
	for _, match := range regexp.MustCompile("(?m)^\\| `--([a-z-]+)").FindAllStringSubmatch(string(text), -1) {
		listed = append(listed, match[1])
	}
	var declared []string
	command := newCommand(&cli.Env{Name: "mkimg"})
	command.Flags().VisitAll(func(f *pflag.Flag) { declared = append(declared, f.Name) })
	declared = append(declared, "quiet", "version")
	sort.Strings(declared)
	sort.Strings(listed)
	require.Equal(t, declared, listed)
}
