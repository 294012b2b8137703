// Package node drives klamm with KafkaJS (needs Node.js, and npm once).
package node
