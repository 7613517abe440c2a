package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"

	"drydock/ext4"
)

// promise is the text of a mark in a trace: what was acknowledged, and so has to
// be there after any crash that comes later.
type promise struct {
	Sync   string `json:"sync"`             // "all": everything before; "file": Path; "commit": a transaction; "close": the end
	Line   int    `json:"line,omitempty"`   // of the script
	Path   string `json:"path,omitempty"`   // Sync "file"
	Size   int64  `json:"size,omitempty"`   // bytes, Sync "file"
	SHA256 string `json:"sha256,omitempty"` // of the data, Sync "file"
}

// String is the promise as JSON.
func (p promise) String() string {
	text, _ := json.Marshal(p) // strings and numbers only: it cannot fail
	return string(text)
}

// filePromise describes the data of a file that was synced.
func filePromise(f *ext4.File, name string, line int) (promise, error) {
	info, err := f.Stat()
	if err != nil {
		return promise{}, err
	}
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(f, 0, info.Size())); err != nil {
		return promise{}, err
	}
	return promise{Sync: "file", Line: line, Path: name, Size: info.Size(), SHA256: hex.EncodeToString(h.Sum(nil))}, nil
}
