"""What the programs in Python have in common: commands in, answers out (see package matrix)."""

import json
import sys


def say(**line):
    print(json.dumps(line), flush=True)


def text(raw):
    return None if raw is None else raw.decode()


def raw(value):
    return None if value is None else value.encode()


def acked(index, partition, offset):
    say(acked={"index": index, "partition": partition, "offset": offset})


def show(partition, offset, time, key, value, headers):
    """Prints a record; headers are pairs of a name and bytes, or None."""
    say(record={
        "partition": partition, "offset": offset, "time": time, "key": text(key), "value": text(value),
        "headers": {name: text(content) for name, content in headers or []},
    })


def headers(record):
    """The headers of a record of the command, as pairs."""
    return [(name, content.encode()) for name, content in (record.get("headers") or {}).items()]


def serve(do):
    """Carries out commands until standard input ends; do returns the result of a question."""
    bootstrap = sys.argv[1]
    for line in sys.stdin:
        try:
            result = do(bootstrap, json.loads(line))
            if result is not None:
                say(result=result)
            say(done=True)
        except Exception as error:  # whatever it is, it is this command's answer
            say(error=repr(error))
