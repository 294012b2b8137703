// Package kfake shows that the comparison discriminates: franz-go's in-process fake, a
// careful broker of other authors, is held beside the recorded answers of Kafka and must
// be found to differ.
package kfake
