// Package python drives klamm with kafka-python (needs Python with venv, and pip once).
package python
