package main

// writeRows are the rows about the writer library.
var writeRows = []row{
	overwriteRow, copy256Row, copy1024Row, copy4096Row, directRow, overwritersRow, noWaitSeqRow, noWaitRandRow, tailRow, createRow, millionRow,
}
