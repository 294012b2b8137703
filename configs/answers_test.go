package configs

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// answer is how Kafka 4.4 takes some values of some keys.
type answer struct {
	keys           []string
	taken, refused []string
}

// kafkaAnswers reads what testdata/ConfigAnswers.java has printed.
func kafkaAnswers(t *testing.T) (list []answer) {
	t.Helper()
	text, err := os.ReadFile("testdata/kafka-answers.tsv")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) != 3 {
			t.Fatalf("%d fields in %q", len(f), line)
		}
		list = append(list, answer{strings.Fields(f[0]), quotedTexts(t, f[1]), quotedTexts(t, f[2])})
	}
	return list
}

func quotedTexts(t *testing.T, text string) (list []string) {
	t.Helper()
	for text != "" {
		quoted, err := strconv.QuotedPrefix(text)
		if err != nil {
			t.Fatalf("%v in %q", err, text)
		}
		value, _ := strconv.Unquote(quoted)
		list = append(list, value)
		text = strings.TrimPrefix(text[len(quoted):], " ")
	}
	return list
}

func TestAnswersX(t *testing.T) {
	base := []string{
		"process.roles=broker,controller", "node.id=1", "listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
		"controller.listener.names=CONTROLLER", "controller.quorum.bootstrap.servers=127.0.0.1:9093",
	}
	loads := func(key, value string) error {
		_, _, err := Load(Sources{Set: append(base[:len(base):len(base)], key+"="+value)})
		return err
	}
	for _, a := range kafkaAnswers(t) {
		for _, key := range a.keys {
			what, _ := classify(key, "x")
			var lax, strict []string
			for _, v := range a.refused {
				if loads(key, v) == nil {
					lax = append(lax, strconv.Quote(v))
				}
			}
			var why error
			for _, v := range a.taken {
				if err := loads(key, v); err != nil {
					strict = append(strict, strconv.Quote(v))
					why = err
				}
			}
			if lax != nil || strict != nil {
				t.Log(key, what, "LAX", lax, "STRICT", strict, why)
			}
		}
	}
}
