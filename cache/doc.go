// Package cache keeps file data in memory: folios with an uptodate and a dirty
// bit for each block, a memory budget, writeback, and writes that do not wait.
package cache
