//go:build !linux

package main

// writeRows is empty: the rows about writing compare with Linux.
var writeRows []row
