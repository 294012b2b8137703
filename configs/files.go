package configs

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/viper"
)

// readFile reads a configuration file into flat settings. The suffix tells the form:
// .yaml and .yml, .toml, and Java properties for all others.
func readFile(name string, text []byte) (map[string]string, error) {
	if bytes.HasPrefix(text, []byte("\xff\xfe")) || bytes.HasPrefix(text, []byte("\xfe\xff")) {
		return nil, errors.New("is UTF-16, and must be UTF-8")
	}
	text = bytes.TrimPrefix(text, []byte("\ufeff")) // of editors on Windows
	switch form := strings.ToLower(filepath.Ext(name)); form {
	case ".yaml", ".yml":
		return readTree("yaml", text)
	case ".toml":
		return readTree("toml", text)
	}
	return readProperties(text)
}

// readTree decodes with viper's codec, but flattens by itself: viper would lose the case
// of names, and one of two keys of which one continues the other.
func readTree(form string, text []byte) (map[string]string, error) {
	decoder, err := viper.NewCodecRegistry().Decoder(form)
	if err != nil {
		return nil, err
	}
	tree := map[string]any{}
	if err := decoder.Decode(text, tree); err != nil {
		if strings.Contains(err.Error(), "into map[string]interface") {
			return nil, errors.New("is not a table of keys and values")
		}
		return nil, oneLine(err)
	}
	flat := map[string]string{}
	return flat, flatten(flat, "", tree)
}

func oneLine(err error) error {
	return errors.New(strings.Join(strings.Fields(err.Error()), " "))
}

// flatten joins the names on the way to each value with dots.
func flatten(into map[string]string, prefix string, tree map[string]any) error {
	for _, name := range slices.Sorted(maps.Keys(tree)) {
		key := prefix + name
		switch value := tree[name].(type) {
		case nil: // written without a value: as if it were not there
		case map[string]any:
			if err := flatten(into, key+".", value); err != nil {
				return err
			}
		default:
			text, err := scalar(value)
			if err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
			if _, twice := into[key]; twice {
				return fmt.Errorf("%s is set twice, flat and nested", key)
			}
			into[key] = text
		}
	}
	return nil
}

// scalar writes a decoded value as it would stand in a properties file.
func scalar(value any) (string, error) {
	switch v := value.(type) {
	case string:
		return v, nil
	case bool:
		return strconv.FormatBool(v), nil
	case int, int64, uint64:
		return fmt.Sprint(v), nil
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64), nil
	case []any:
		parts := make([]string, len(v))
		for i, element := range v {
			part, err := scalar(element)
			if err != nil {
				return "", err
			}
			parts[i] = part
		}
		return strings.Join(parts, ","), nil
	}
	return "", fmt.Errorf("a value of this form (%T) is not a setting; put it in quotation marks", value)
}
