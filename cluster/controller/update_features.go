package controller

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// The upgrade types of UpdateFeatures. Version 0 has none and counts as an upgrade,
// whatever it says about downgrades, as in Kafka.
const (
	featureUpgrade         int8 = 1
	featureSafeDowngrade   int8 = 2
	featureUnsafeDowngrade int8 = 3
)

// updateFeatures decides an UpdateFeatures request, versions 0 to 2
// (FeatureControlManager.updateFeatures): all of its updates, or none.
func (s *state) updateFeatures(call Call) decision {
	req := call.Request.(*kmsg.UpdateFeaturesRequest)
	var records []metadata.Record
	for i := range req.FeatureUpdates {
		u := &req.FeatureUpdates[i]
		if err := s.checkFeatureUpdate(u); err != nil {
			return decision{response: ErrorResponse(req, err)}
		}
		if u.MaxVersionLevel != s.image.Feature(u.Feature) {
			records = append(records, metadata.FeatureLevelRecord{
				FeatureLevel: metadata.FeatureLevel{Name: u.Feature, Level: u.MaxVersionLevel},
			})
		}
	}
	resp := req.ResponseKind().(*kmsg.UpdateFeaturesResponse)
	if req.Version <= 1 {
		resp.Results = featureResults(req)
	}
	if req.ValidateOnly {
		records = nil
	}
	return decision{records: records, atomic: true, response: resp}
}

func featureResults(req *kmsg.UpdateFeaturesRequest) (results []kmsg.UpdateFeaturesResponseResult) {
	done := "NONE"
	for _, u := range req.FeatureUpdates {
		r := kmsg.NewUpdateFeaturesResponseResult()
		r.Feature, r.ErrorMessage = u.Feature, &done
		results = append(results, r)
	}
	return results
}

// checkFeatureUpdate refuses a level that some broker does not have, and a change that
// goes another way than its type says.
func (s *state) checkFeatureUpdate(u *kmsg.UpdateFeaturesRequestFeatureUpdate) error {
	how, level, now := u.UpgradeType, u.MaxVersionLevel, s.image.Feature(u.Feature)
	switch {
	case how != featureUpgrade && how != featureSafeDowngrade && how != featureUnsafeDowngrade:
		return invalidUpdate(u, "there is no such upgrade type")
	case level < 0:
		return invalidUpdate(u, "a level is not negative")
	}
	if err := s.supportsFeature(u); err != nil {
		return err
	}
	switch {
	case level < now && how == featureUpgrade:
		return invalidUpdate(u, fmt.Sprintf("it is at %d, and an upgrade does not lower it", now))
	case level > now && how != featureUpgrade:
		return invalidUpdate(u, fmt.Sprintf("it is at %d, and a downgrade does not raise it", now))
	}
	return nil
}

// supportsFeature looks whether every registered node has the feature at that level.
func (s *state) supportsFeature(u *kmsg.UpdateFeaturesRequestFeatureUpdate) error {
	for c := range s.image.Controllers() {
		if err := hasLevel(u, "controller", c.ID, c.Features); err != nil {
			return err
		}
	}
	for b := range s.image.Brokers() {
		if err := hasLevel(u, "broker", b.ID, b.Features); err != nil {
			return err
		}
	}
	return nil
}

func hasLevel(u *kmsg.UpdateFeaturesRequestFeatureUpdate, role string, id int32, features []metadata.Feature) error {
	has := metadata.Feature{}
	for _, f := range features {
		if f.Name == u.Feature {
			has = f
		}
	}
	switch {
	case has.Max == 0:
		return invalidUpdate(u, fmt.Sprintf("%s %d does not have this feature", role, id))
	case u.MaxVersionLevel < has.Min || u.MaxVersionLevel > has.Max:
		return invalidUpdate(u, fmt.Sprintf("%s %d has its levels %d to %d", role, id, has.Min, has.Max))
	}
	return nil
}

func invalidUpdate(u *kmsg.UpdateFeaturesRequestFeatureUpdate, why string) error {
	return kafkaerr.New(kafkaerr.InvalidUpdateVersion, fmt.Sprintf("no feature was changed: %s at level %d: %s", u.Feature, u.MaxVersionLevel, why))
}
