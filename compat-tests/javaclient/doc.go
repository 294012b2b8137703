// Package javaclient drives klamm with the Java client (needs a JDK, kcat, and Maven once).
package javaclient
