//go:build !linux

package main

// easeTimers is for Linux (see there).
func easeTimers() {}
