package ext4

// fileData is what is known in memory of a file's data.
type fileData struct{}
