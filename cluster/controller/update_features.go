package controller

import (
	"fmt"
	"slices"

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
	case u.Feature == metadata.FeatureMetadata && level < now && metadata.RecordsChanged(level, now):
		// Also an unsafe one, as in Kafka: the records are in the log.
		return invalidUpdate(u, fmt.Sprintf("it is at %d, and there may be metadata that %d does not have", now, level))
	}
	return nil
}

// supportsFeature looks whether every node has the feature at that level: those that are
// registered, this one, and each that votes.
func (s *state) supportsFeature(u *kmsg.UpdateFeaturesRequestFeatureUpdate) error {
	if u.Feature == metadata.FeatureMetadata {
		own := metadata.Feature{Name: u.Feature, Min: metadata.MinMetadataLevel, Max: metadata.MaxMetadataLevel}
		if err := hasLevel(u, "controller", s.opts.NodeID, []metadata.Feature{own}); err != nil {
			return err
		}
	}
	if err := s.controllersSupport(u); err != nil {
		return err
	}
	for b := range s.image.Brokers() {
		if err := hasLevel(u, "broker", b.ID, b.Features); err != nil {
			return err
		}
	}
	return nil
}

// controllersSupport is about controllers. The registration of one that is not in the quorum
// any more stays, since there is no way to take it back, and does not count.
func (s *state) controllersSupport(u *kmsg.UpdateFeaturesRequestFeatureUpdate) error {
	voters, observers := s.opts.Quorum()
	for c := range s.image.Controllers() {
		if len(voters) > 0 && !slices.Contains(voters, c.ID) && !slices.Contains(observers, c.ID) {
			continue
		}
		if err := hasLevel(u, "controller", c.ID, c.Features); err != nil {
			return err
		}
	}
	for _, id := range voters {
		if id != s.opts.NodeID && s.image.Controller(id) == nil {
			return invalidUpdate(u, fmt.Sprintf("controller %d is not registered, so its levels are not known", id))
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
