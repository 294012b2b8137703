package scenarios

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

func updateFeatures() []conform.Scenario {
	return []conform.Scenario{{Name: "updatefeatures/validate", Key: 57, Run: validateFeatures}}
}

// level is a feature and the level that it shall have; how is 1 for an upgrade, 2 for a
// safe downgrade, 3 for an unsafe one. Version 0 only knows whether it may go down.
type level struct {
	feature string
	level   int16
	how     int8
	down    bool
}

// features is an UpdateFeatures that changes nothing: version 0 cannot say so, and is
// sent with features that do not exist.
func features(version int16, levels ...level) *kmsg.UpdateFeaturesRequest {
	req := kmsg.NewPtrUpdateFeaturesRequest()
	req.Version, req.TimeoutMillis, req.ValidateOnly = version, 20_000, true
	for _, l := range levels {
		u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
		u.Feature, u.MaxVersionLevel, u.UpgradeType, u.AllowDowngrade = l.feature, l.level, l.how, l.down
		req.FeatureUpdates = append(req.FeatureUpdates, u)
	}
	return req
}

func validateFeatures(r *conform.R) {
	for _, v := range conform.Versions(57) {
		for _, c := range []struct {
			title  string
			levels []level
		}{
			{"unknown feature", []level{{"no.such", 1, 1, false}}},
			{"empty name", []level{{"", 1, 1, false}}},
			{"level above all", []level{{"metadata.version", 32767, 1, false}}},
			{"negative level", []level{{"metadata.version", -1, 1, false}}},
			{"level 0", []level{{"metadata.version", 0, 1, false}}},
			{"level 0, down", []level{{"metadata.version", 0, 2, true}}},
			{"below all", []level{{"metadata.version", 1, 2, true}}},
			{"below all, unsafe", []level{{"metadata.version", 1, 3, true}}},
			{"down without saying so", []level{{"metadata.version", 20, 1, false}}},
			{"twice", []level{{"no.such", 1, 1, false}, {"no.such", 2, 1, false}}},
			{"two unknown ones", []level{{"no.such", 1, 1, false}, {"nor.such", 1, 1, false}}},
		} {
			if v > 0 || c.levels[0].feature != "metadata.version" {
				r.Send(label(v, "%s", c.title), features(v, c.levels...))
			}
		}
		r.Send(label(v, "none"), features(v))
		if v == 0 {
			continue
		}
		for _, how := range []int8{0, 4, -1, 127} {
			r.Send(label(v, "%s", fmt.Sprintf("upgrade type %d", how)), features(v, level{"no.such", 1, how, false}))
			r.Send(label(v, "%s", fmt.Sprintf("known feature, upgrade type %d", how)), features(v, level{"metadata.version", 32000, how, false}))
		}
		tagged := features(v, level{"no.such", 1, 1, false})
		unknownTags(&tagged.UnknownTags)
		unknownTags(&tagged.FeatureUpdates[0].UnknownTags)
		r.Send(label(v, "unknown tags"), tagged)
	}
}
