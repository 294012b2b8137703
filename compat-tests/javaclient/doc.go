// Package javaclient drives klamm with Kafka's own consumer (needs a JDK, and Maven once).
package javaclient
