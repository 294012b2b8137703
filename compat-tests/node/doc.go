// Package node drives klamm with KafkaJS and @platformatic/kafka (needs Node.js with npm, and
// npm once).
package node
