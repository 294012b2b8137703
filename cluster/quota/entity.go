package quota

import (
	"crypto/sha256"

	"github.com/klamm-mq/klamm/cluster/metadata"
)

// Key is the name of a kind of quota in metadata.
type Key string

// The quotas of users and clients, and that of addresses.
const (
	ProducerByteRate       Key = "producer_byte_rate"
	ConsumerByteRate       Key = "consumer_byte_rate"
	RequestPercentage      Key = "request_percentage"
	ControllerMutationRate Key = "controller_mutation_rate"
	ConnectionCreationRate Key = "connection_creation_rate"
)

// Client is who uses something.
type Client struct {
	User     string // the name of the principal, without its type
	ClientID string // "" if it has none: only quotas of users count for it
}

// meterID tells who is measured together: a part that the quota is not for is empty.
type meterID struct {
	user, clientID   string
	byUser, byClient bool
}

// limits are the quotas of one kind.
type limits map[metadata.QuotaEntity]float64

// set makes the limit of an entity what its quotas say; ok tells whether they say anything.
func (l limits) set(e metadata.QuotaEntity, limit float64, ok bool) {
	if ok {
		l[e] = limit
		return
	}
	delete(l, e)
}

// find gives the quota that counts for a client.
func (l limits) find(c Client) (limit float64, id meterID, found bool) {
	user, client, any := metadata.QuotaFor(c.User), metadata.QuotaFor(c.ClientID), metadata.QuotaForDefault()
	for _, e := range [...]metadata.QuotaEntity{
		{User: user, ClientID: client},
		{User: user, ClientID: any},
		{User: user},
		{User: any, ClientID: client},
		{User: any, ClientID: any},
		{User: any},
		{ClientID: client},
		{ClientID: any},
	} {
		if e.ClientID.Kind != metadata.QuotaNotGiven && c.ClientID == "" {
			continue
		}
		if limit, found = l[e]; found {
			return limit, idOf(e, c), true
		}
	}
	return 0, meterID{}, false
}

func idOf(e metadata.QuotaEntity, c Client) meterID {
	id := meterID{byUser: e.User.Kind != metadata.QuotaNotGiven, byClient: e.ClientID.Kind != metadata.QuotaNotGiven}
	if id.byUser {
		id.user = c.User
	}
	if id.byClient {
		id.clientID = short(c.ClientID)
	}
	return id
}

// short stands for a client id. A meter is kept for an hour, and thousands of them must not
// keep as many ids of 32 KiB: of one too long for a label there is a digest, which begins
// like no text and so becomes none.
func short(clientID string) string {
	if len(clientID) <= maxName {
		return clientID
	}
	sum := sha256.Sum256([]byte(clientID))
	return "\xff" + string(sum[:])
}
