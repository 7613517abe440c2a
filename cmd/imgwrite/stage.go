package main

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
)

// stage brings in the data of all regular files that put is going to copy.
func (o *putOp) stage(ctx context.Context, s *session, args []string, to *staging) error {
	c := copyIn{ctx: ctx, s: s}
	seen := map[hostID]bool{}
	for _, source := range args[:len(args)-1] {
		err := filepath.WalkDir(source, func(name string, d fs.DirEntry, err error) error {
			if err = errors.Join(err, ctx.Err()); err != nil {
				return err
			}
			if !d.Type().IsRegular() {
				return nil
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			host := hostOf(info)
			if host.nlink > 1 && seen[host.id] {
				return nil // becomes a link to the first
			}
			seen[host.id] = true
			return c.stageFile(name, to)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// stageFile brings in the data of one file.
func (c *copyIn) stageFile(name string, to *staging) error {
	f, err := c.s.fs.OpenTemp(0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(c.fill(f, name)); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := f.Sync(); err != nil {
		return errors.Join(err, f.Close())
	}
	key := filepath.Clean(name)
	to.files[key] = append(to.files[key], f)
	return nil
}
