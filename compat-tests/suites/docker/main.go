// Command docker stands in for docker compose where sarama's tests call it. The brokers are
// processes of package suites, which is asked at COMPOSE_AT to stop one, to start it and for
// its log. What is run in a container is run here, with Kafka's scripts from COMPOSE_BIN and
// the broker at COMPOSE_BROKER.
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "docker:", err)
		os.Exit(1)
	}
}

// run is given "compose", options, a verb, options and a service.
func run(args []string) error {
	verbs := []string{"up", "down", "rm", "stop", "start", "logs", "exec"}
	at := slices.IndexFunc(args, func(a string) bool { return slices.Contains(verbs, a) })
	if at < 0 || args[0] != "compose" {
		return fmt.Errorf("cannot do %q", args)
	}
	verb, rest := args[at], args[at+1:]
	switch verb {
	case "down", "rm": // the brokers end with their test
		return nil
	case "exec":
		return execute(rest)
	case "up":
		return ask(verb, "")
	}
	return ask(verb, rest[len(rest)-1])
}

// execute is given "-T", the service, and a command with its arguments.
func execute(args []string) error {
	if len(args) < 3 || args[0] != "-T" {
		return fmt.Errorf("cannot run %q", args)
	}
	argv := slices.Clone(args[2:])
	names := strings.NewReplacer("kafka-1:9091", os.Getenv("COMPOSE_BROKER"), "/opt/kafka-"+os.Getenv("KAFKA_VERSION")+"/bin", os.Getenv("COMPOSE_BIN"))
	for i := range argv {
		argv[i] = names.Replace(argv[i])
	}
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return err
	}
	return syscall.Exec(path, argv, os.Environ())
}

// ask has the test do something with one of its brokers.
func ask(verb, service string) error {
	answer, err := http.Post("http://"+os.Getenv("COMPOSE_AT")+"/"+verb+"/"+service, "text/plain", nil)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(answer.Body) // in part is better than not at all
		return fmt.Errorf("%s %s: %s", verb, service, text)
	}
	_, err = io.Copy(os.Stdout, answer.Body)
	return err
}
