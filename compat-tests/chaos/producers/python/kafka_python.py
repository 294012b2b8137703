"""A producer with kafka-python (see package chaos)."""

import signal
import sys
import time

from kafka import KafkaProducer


def say(*words):
    # One write for a line: the library's thread prints, too.
    sys.stdout.write(" ".join(str(w) for w in words) + "\n")
    sys.stdout.flush()


def main():
    options = dict(arg[2:].split("=", 1) for arg in sys.argv[1:])
    partitions, pace = int(options["partitions"]), int(options["pace-ms"]) / 1000
    leaving = []
    signal.signal(signal.SIGTERM, lambda signum, frame: leaving.append(signum))
    producer = KafkaProducer(bootstrap_servers=options["bootstrap"], client_id=options["name"])
    i = 0
    while not leaving:
        value = f"{options['name']}-{i}".encode()
        future = producer.send(options["topic"], value=value, partition=i % partitions)
        future.add_callback(lambda at, n=i: say("acked", n, at.partition, at.offset))
        future.add_errback(lambda error, n=i: say("failed", n, repr(error)))
        i += 1
        time.sleep(pace)
    producer.flush()
    producer.close()


if __name__ == "__main__":
    main()
