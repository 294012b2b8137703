package scenarios

import "fmt"

// label is the label of a step of one version.
func label(version int16, format string, args ...any) string {
	return fmt.Sprintf("v%d "+format, append([]any{version}, args...)...)
}
