package scenarios

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

// tokensOnPlaintext are the requests for delegation tokens on a listener without SASL,
// where no one may have one.
func tokensOnPlaintext() []conform.Scenario {
	return []conform.Scenario{
		{Name: "tokens/create-on-plaintext", Key: 38, Run: createTokenInVain},
		{Name: "tokens/renew-on-plaintext", Key: 39, Run: renewTokenInVain},
		{Name: "tokens/expire-on-plaintext", Key: 40, Run: expireTokenInVain},
		{Name: "tokens/describe-on-plaintext", Key: 41, Run: describeTokensInVain},
	}
}

func createTokenInVain(r *conform.R) {
	type request = *kmsg.CreateDelegationTokenRequest
	renewer := func(kind, name string) kmsg.CreateDelegationTokenRequestRenewer {
		n := kmsg.NewCreateDelegationTokenRequestRenewer()
		n.PrincipalType, n.PrincipalName = kind, name
		return n
	}
	mk := func() request {
		req := kmsg.NewPtrCreateDelegationTokenRequest()
		req.MaxLifetimeMillis = -1
		return req
	}
	sendVariants(r, mk, []variant[request]{
		plain[request](),
		with("a renewer", func(req request) { req.Renewers = append(req.Renewers, renewer("User", "a")) }),
		with("renewer of another type", func(req request) { req.Renewers = append(req.Renewers, renewer("Group", "a")) }),
		with("empty renewer", func(req request) { req.Renewers = append(req.Renewers, renewer("", "")) }),
		with("lifetime 0", func(req request) { req.MaxLifetimeMillis = 0 }),
		with("lifetime -2", func(req request) { req.MaxLifetimeMillis = -2 }),
		with("a second", func(req request) { req.MaxLifetimeMillis = 1000 }),
		since(3, "owner", func(req request) { req.OwnerPrincipalType, req.OwnerPrincipalName = of("User"), of("a") }),
		since(3, "owner of another type", func(req request) { req.OwnerPrincipalType, req.OwnerPrincipalName = of("Group"), of("a") }),
		since(3, "empty owner", func(req request) { req.OwnerPrincipalType, req.OwnerPrincipalName = of(""), of("") }),
		since(3, "owner without type", func(req request) { req.OwnerPrincipalName = of("a") }),
		since(2, "unknown tags", func(req request) { unknownTags(&req.UnknownTags) }),
	})
}

func renewTokenInVain(r *conform.R) {
	type request = *kmsg.RenewDelegationTokenRequest
	sendVariants(r, kmsg.NewPtrRenewDelegationTokenRequest, []variant[request]{
		with("unknown", func(req request) { req.HMAC, req.RenewTimeMillis = []byte("unknown"), 1000 }),
		with("empty", func(req request) { req.HMAC = []byte{} }),
		with("for -1", func(req request) { req.HMAC, req.RenewTimeMillis = []byte("x"), -1 }),
		since(2, "unknown tags", func(req request) { req.HMAC = []byte("x"); unknownTags(&req.UnknownTags) }),
	})
}

func expireTokenInVain(r *conform.R) {
	type request = *kmsg.ExpireDelegationTokenRequest
	sendVariants(r, kmsg.NewPtrExpireDelegationTokenRequest, []variant[request]{
		with("unknown", func(req request) { req.HMAC, req.ExpiryPeriodMillis = []byte("unknown"), 1000 }),
		with("empty", func(req request) { req.HMAC = []byte{} }),
		with("at once", func(req request) { req.HMAC, req.ExpiryPeriodMillis = []byte("x"), -1 }),
		since(2, "unknown tags", func(req request) { req.HMAC = []byte("x"); unknownTags(&req.UnknownTags) }),
	})
}

func describeTokensInVain(r *conform.R) {
	type request = *kmsg.DescribeDelegationTokenRequest
	owner := func(kind, name string) kmsg.DescribeDelegationTokenRequestOwner {
		o := kmsg.NewDescribeDelegationTokenRequestOwner()
		o.PrincipalType, o.PrincipalName = kind, name
		return o
	}
	sendVariants(r, kmsg.NewPtrDescribeDelegationTokenRequest, []variant[request]{
		with("all", func(req request) { req.Owners = nil }),
		with("none", func(req request) { req.Owners = []kmsg.DescribeDelegationTokenRequestOwner{} }),
		with("an owner", func(req request) { req.Owners = append(req.Owners, owner("User", "a")) }),
		with("empty owner", func(req request) { req.Owners = append(req.Owners, owner("", "")) }),
		with("twice", func(req request) { req.Owners = append(req.Owners, owner("User", "a"), owner("User", "a")) }),
		since(2, "unknown tags", func(req request) { unknownTags(&req.UnknownTags) }),
	})
}
