// Package franz drives klamm with franz-go and its default settings.
package franz
