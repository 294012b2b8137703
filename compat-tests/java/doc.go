// Package java brings Apache Kafka's jars through Maven and runs classes from them.
package java
