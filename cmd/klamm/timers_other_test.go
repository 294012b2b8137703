//go:build !linux

package main

import "github.com/rogpeppe/go-internal/testscript"

// eased is for Linux (see there).
func eased(*testscript.TestScript, bool, []string) {}
