package scenarios

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

func scramCredentials() []conform.Scenario {
	return []conform.Scenario{
		{Name: "scram/describe", Key: 50, Run: describeScram},
		{Name: "scram/refused", Key: 51, Run: scramRefused},
		{Name: "scram/upsert-and-delete", Key: 51, Needs: []int16{50}, Invasive: true, Run: scramUpsertAndDelete},
	}
}

// Mechanisms of SCRAM.
const (
	sha256 int8 = 1
	sha512 int8 = 2
)

// credential is one to store; its password is nobody's.
func credential(user string, mechanism int8, iterations int32) kmsg.AlterUserSCRAMCredentialsRequestUpsertion {
	c := kmsg.NewAlterUserSCRAMCredentialsRequestUpsertion()
	c.Name, c.Mechanism, c.Iterations = user, mechanism, iterations
	c.Salt = []byte("0123456789abcdef")
	size := 32
	if mechanism == sha512 {
		size = 64
	}
	c.SaltedPassword = make([]byte, size)
	return c
}

type upsertions = []kmsg.AlterUserSCRAMCredentialsRequestUpsertion

type deletions = []kmsg.AlterUserSCRAMCredentialsRequestDeletion

func deletion(user string, mechanism int8) kmsg.AlterUserSCRAMCredentialsRequestDeletion {
	d := kmsg.NewAlterUserSCRAMCredentialsRequestDeletion()
	d.Name, d.Mechanism = user, mechanism
	return d
}

func alterScram(d deletions, u upsertions) *kmsg.AlterUserSCRAMCredentialsRequest {
	req := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
	req.Deletions, req.Upsertions = d, u
	return req
}

func scramOf(users ...string) *kmsg.DescribeUserSCRAMCredentialsRequest {
	req := kmsg.NewPtrDescribeUserSCRAMCredentialsRequest()
	req.Users = []kmsg.DescribeUserSCRAMCredentialsRequestUser{}
	for _, user := range users {
		u := kmsg.NewDescribeUserSCRAMCredentialsRequestUser()
		u.Name = user
		req.Users = append(req.Users, u)
	}
	return req
}

func describeScram(r *conform.R) {
	nobody, other := r.Name("nobody"), r.Name("other")
	r.Send("unknown", scramOf(nobody))
	r.Send("two unknown", scramOf(nobody, other))
	r.Send("unknown twice", scramOf(nobody, nobody))
	r.Send("empty", scramOf(""))
	tagged := scramOf(nobody)
	unknownTags(&tagged.UnknownTags)
	unknownTags(&tagged.Users[0].UnknownTags)
	r.Send("unknown tags", tagged)
}

// scramRefused changes nothing: each request has an error of its own.
func scramRefused(r *conform.R) {
	user := r.Name("user")
	edited := func(edit func(*kmsg.AlterUserSCRAMCredentialsRequestUpsertion)) upsertions {
		c := credential(user, sha256, 4096)
		edit(&c)
		return upsertions{c}
	}
	for _, c := range []struct {
		title string
		d     deletions
		u     upsertions
	}{
		{"nothing", nil, nil},
		{"delete unknown", deletions{deletion(user, sha256)}, nil},
		{"delete unknown, both mechanisms", deletions{deletion(user, sha256), deletion(user, sha512)}, nil},
		{"delete twice", deletions{deletion(user, sha256), deletion(user, sha256)}, nil},
		{"delete of an empty user", deletions{deletion("", sha256)}, nil},
		{"delete of mechanism 0", deletions{deletion(user, 0)}, nil},
		{"delete of mechanism 3", deletions{deletion(user, 3)}, nil},
		{"upsert twice", nil, upsertions{credential(user, sha256, 4096), credential(user, sha256, 8192)}},
		{"delete and upsert", deletions{deletion(user, sha256)}, upsertions{credential(user, sha256, 4096)}},
		{"empty user", nil, upsertions{credential("", sha256, 4096)}},
		{"mechanism 0", nil, upsertions{credential(user, 0, 4096)}},
		{"mechanism 3", nil, upsertions{credential(user, 3, 4096)}},
		{"mechanism -1", nil, upsertions{credential(user, -1, 4096)}},
		{"4095 iterations", nil, upsertions{credential(user, sha256, 4095)}},
		{"4095 iterations of SHA-512", nil, upsertions{credential(user, sha512, 4095)}},
		{"16385 iterations", nil, upsertions{credential(user, sha256, 16_385)}},
		{"0 iterations", nil, upsertions{credential(user, sha256, 0)}},
		{"-1 iterations", nil, upsertions{credential(user, sha256, -1)}},
		{"empty user and bad mechanism", nil, upsertions{credential("", 0, 1)}},
		{"empty user, few iterations", nil, upsertions{credential("", sha256, 1)}},
		{"no iterations, empty salt", nil, edited(func(c *kmsg.AlterUserSCRAMCredentialsRequestUpsertion) { c.Iterations, c.Salt = 0, nil })},
	} {
		r.Send(c.title, alterScram(c.d, c.u))
	}
}

// scramUpsertAndDelete stores credentials of a user of the run's and deletes them.
func scramUpsertAndDelete(r *conform.R) {
	user, other := r.Name("user"), r.Name("other")
	await := func(n int) {
		ask := func() kmsg.Request { return scramOf(user) }
		r.Until(fmt.Sprintf("%d credentials", n), ask, func(resp kmsg.Response) bool {
			return len(resp.(*kmsg.DescribeUserSCRAMCredentialsResponse).Results[0].CredentialInfos) == n
		})
	}
	r.Send("fewest iterations", alterScram(nil, upsertions{credential(user, sha256, 4096)}))
	await(1)
	r.Send("after fewest iterations", scramOf(user))
	r.Send("most iterations of the other mechanism", alterScram(nil, upsertions{credential(user, sha512, 16_384)}))
	await(2)
	r.Send("after both", scramOf(user))
	r.Send("other iterations", alterScram(nil, upsertions{credential(user, sha256, 5000)}))
	r.Send("good and bad of two users", alterScram(deletions{deletion(user, sha256)}, upsertions{credential(other, sha256, 1)}))
	await(1)
	r.Send("good and bad of one user", alterScram(deletions{deletion(user, sha512)}, upsertions{credential(user, sha256, 1)}))
	r.Send("after good and bad", scramOf(user, other))
	r.Send("delete", alterScram(deletions{deletion(user, sha512)}, nil))
	await(0)
	r.Send("after delete", scramOf(user))
}
