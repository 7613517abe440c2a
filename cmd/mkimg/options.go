package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/google/uuid"

	"drydock/build"
	"drydock/format"
	"drydock/internal/cli"
)

// options are mkimg's flags.
type options struct {
	out  string
	from []string

	size                 autoSize
	free                 cli.Amount
	freeInodes, inodes   uint64
	blockSize, inodeSize cli.Size
	journal              journalSize
	reserved             percent

	label             string
	uuid, hashSeed    id
	epoch             epoch
	reproducible      bool
	profile, features string
	owner             string
	mapOwner          []string
	xattrs            string
	exclude           []string
	holes, whiteouts  string
	partition         string
	offset            cli.Size
	dryRun, json      bool
	force, verify     bool
	sync              bool
	skipUnreadable    bool
	workers           int
}

// build translates the flags. Its errors name the flag and are errors of usage.
func (o options) build(lookupEnv func(string) (string, bool)) (build.Options, error) {
	b := build.Options{
		Out: o.out, Force: o.force, From: o.from,
		Size: o.size.bytes, Smallest: o.size.auto,
		FreeBytes: o.free.Bytes, FreePercent: o.free.Percent, FreeInodes: o.freeInodes,
		Inodes: o.inodes, BlockSize: int(o.blockSize), InodeSize: int(o.inodeSize),
		Journal: o.journal.bytes, NoJournal: o.journal.none, Reserved: float64(o.reserved),
		Profile: o.profile, Features: o.features, Label: o.label,
		UUID: o.uuid.value, HashSeed: o.hashSeed.value, Epoch: o.epoch.seconds, Reproducible: o.reproducible,
		Owner: o.owner, MapOwner: o.mapOwner, Xattrs: o.xattrs, Exclude: o.exclude,
		SkipUnreadable: o.skipUnreadable, Partition: build.PartitionKind(o.partition), Offset: int64(o.offset),
		Workers: o.workers, Verify: o.verify, Sync: o.sync, DryRun: o.dryRun,
	}
	if err := o.check(); err != nil {
		return b, err
	}
	b.Holes, _ = build.ParseHoleMode(o.holes) // check looked at both
	b.Whiteouts, _ = build.ParseWhiteouts(o.whiteouts)
	var err error
	if b.Epoch, err = o.epochOr(lookupEnv); err != nil {
		return b, err
	}
	return b, b.Check()
}

// check looks at what the flags' own types do not.
func (o options) check() error {
	checks := []error{
		check("--features", func() error { _, err := format.Features{}.Apply(o.features); return err }),
		check("--owner", func() error { _, err := build.NewOwnerMap(o.owner, nil); return err }),
		check("--map-owner", func() error { _, err := build.NewOwnerMap("", o.mapOwner); return err }),
		check("--xattrs", func() error { _, err := build.NewXattrFilter(o.xattrs); return err }),
		check("--exclude", func() error { _, err := build.NewExclude(o.exclude); return err }),
		check("--holes", func() error { _, err := build.ParseHoleMode(o.holes); return err }),
		check("--whiteouts", func() error { _, err := build.ParseWhiteouts(o.whiteouts); return err }),
	}
	if !slices.Contains([]string{"none", "gpt", "mbr"}, o.partition) {
		checks = append(checks, fmt.Errorf("--partition: %q is none of none, gpt, mbr", o.partition))
	}
	if o.offset != 0 && o.partition != "none" {
		checks = append(checks, errors.New("--offset and --partition exclude each other"))
	}
	if o.workers < 0 {
		checks = append(checks, fmt.Errorf("--workers: %d workers cannot work", o.workers))
	}
	if i := slices.Index(o.from, "-"); i >= 0 && slices.Contains(o.from[i+1:], "-") {
		checks = append(checks, errors.New("--from: stdin can be read once"))
	}
	return errors.Join(checks...)
}

// check names the flag in what is wrong with its value.
func check(flag string, test func() error) error {
	if err := test(); err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	return nil
}

// epochVariable is the environment's word for --epoch
// (https://reproducible-builds.org/specs/source-date-epoch/).
const epochVariable = "SOURCE_DATE_EPOCH"

// epochOr returns --epoch, or else what the environment says.
func (o options) epochOr(lookupEnv func(string) (string, bool)) (*int64, error) {
	text, set := lookupEnv(epochVariable)
	if o.epoch.seconds != nil || !set || text == "" {
		return o.epoch.seconds, nil
	}
	var e epoch
	err := check(epochVariable, func() error { return e.Set(text) })
	return e.seconds, err
}

// autoSize is a flag value: a size, or "auto" for the smallest that works.
type autoSize struct {
	bytes int64
	auto  bool
}

func (s *autoSize) Type() string { return "SIZE|auto" }

func (s *autoSize) String() string {
	if s.auto || s.bytes == 0 {
		return "auto"
	}
	return cli.FormatSize(s.bytes)
}

func (s *autoSize) Set(text string) (err error) {
	*s = autoSize{auto: text == "auto"}
	if s.auto {
		return nil
	}
	if s.bytes, err = cli.ParseSize(text); err == nil && s.bytes == 0 {
		err = errors.New("a size of 0 holds nothing")
	}
	return err
}

// journalSize is a flag value: a size, or "none".
type journalSize struct {
	bytes int64
	none  bool
}

func (j *journalSize) Type() string { return "SIZE|none" }

func (j *journalSize) String() string {
	if j.none {
		return "none"
	}
	return cli.FormatSize(j.bytes)
}

func (j *journalSize) Set(text string) (err error) {
	*j = journalSize{none: text == "none"}
	if !j.none && text != "auto" {
		if j.bytes, err = cli.ParseSize(text); err == nil && j.bytes == 0 {
			err = errors.New("a journal of 0 bytes is none")
		}
	}
	return err
}

// percent is a flag value: "5" or "5%".
type percent float64

func (p *percent) Type() string { return "PERCENT" }

func (p *percent) String() string { return strconv.FormatFloat(float64(*p), 'g', -1, 64) + "%" }

func (p *percent) Set(text string) error {
	var a cli.Amount
	if text == "" || text[len(text)-1] != '%' {
		text += "%"
	}
	err := a.Set(text)
	*p = percent(a.Percent)
	return err
}

// id is a flag value: a UUID.
type id struct{ value *[16]byte }

func (i *id) Type() string { return "UUID" }

func (i *id) String() string {
	if i.value == nil {
		return ""
	}
	return uuid.UUID(*i.value).String()
}

func (i *id) Set(text string) error {
	parsed, err := uuid.Parse(text)
	if err != nil {
		return fmt.Errorf("%q is not a UUID", text)
	}
	i.value = (*[16]byte)(&parsed)
	return nil
}

// epoch is a flag value: seconds since 1970.
type epoch struct{ seconds *int64 }

func (e *epoch) Type() string { return "SECONDS" }

func (e *epoch) String() string {
	if e.seconds == nil {
		return ""
	}
	return strconv.FormatInt(*e.seconds, 10)
}

func (e *epoch) Set(text string) error {
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seconds < 0 || seconds > format.MaxTime.Sec {
		return fmt.Errorf("%q is not a number of seconds from 0 to %d", text, format.MaxTime.Sec)
	}
	e.seconds = &seconds
	return nil
}
