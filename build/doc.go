// Package build makes ext4 images from what a host has.
package build
