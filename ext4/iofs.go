package ext4

import "io/fs"

// FS returns the file system as io/fs knows it: names are as fs.ValidPath
// wants them, so that names which are no UTF-8 are listed but not opened.
// The value also implements fs.ReadDirFS, fs.ReadFileFS, fs.StatFS and
// fs.ReadLinkFS.
func (fsys *FS) FS() fs.FS { return view{fsys} }

type view struct{ fsys *FS }

var (
	_ fs.ReadDirFS  = view{}
	_ fs.ReadFileFS = view{}
	_ fs.StatFS     = view{}
	_ fs.ReadLinkFS = view{}
)

func (v view) Open(name string) (fs.File, error) {
	if err := checkPath("open", name); err != nil {
		return nil, err
	}
	f, err := v.fsys.Open(name)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (v view) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := checkPath("readdir", name); err != nil {
		return nil, err
	}
	return v.fsys.ReadDir(name)
}

func (v view) ReadFile(name string) ([]byte, error) {
	if err := checkPath("readfile", name); err != nil {
		return nil, err
	}
	return v.fsys.ReadFile(name)
}

func (v view) Stat(name string) (fs.FileInfo, error) {
	if err := checkPath("stat", name); err != nil {
		return nil, err
	}
	return v.fsys.Stat(name)
}

func (v view) Lstat(name string) (fs.FileInfo, error) {
	if err := checkPath("lstat", name); err != nil {
		return nil, err
	}
	return v.fsys.Lstat(name)
}

func (v view) ReadLink(name string) (string, error) {
	if err := checkPath("readlink", name); err != nil {
		return "", err
	}
	return v.fsys.Readlink(name)
}

func checkPath(op, name string) error {
	if !fs.ValidPath(name) {
		return pathError(op, name, fs.ErrInvalid)
	}
	return nil
}
