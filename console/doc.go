// Package console is what an operator sees of a running broker over HTTP, on the admin
// listener: whether it lives, whether it is ready, and its metrics. It reads and never
// changes anything.
//
//	/live     200 while the process answers at all
//	/ready    200 when the broker accepts requests, else 503 with the reason
//	/metrics  Prometheus text format
//	/metadata/backup  the metadata of the cluster, as `klamm cluster backup` saves it; 503 with
//	          the reason if no active controller confirms that it is the newest, unless
//	          ?unconfirmed is asked for
package console
