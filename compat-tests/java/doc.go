// Package java brings the jars of Apache Kafka and of Kafka Connect through Maven and runs
// classes from them.
package java
