// Package vfs is the border between the broker and disks.
package vfs
