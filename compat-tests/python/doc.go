// Package python drives klamm with kafka-python, confluent-kafka and aiokafka (needs Python
// with venv, and pip once).
package python
