package scenarios

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

// aclsWithoutAuthorizer are the requests for ACLs of a broker that has no authorizer.
func aclsWithoutAuthorizer() []conform.Scenario {
	return []conform.Scenario{
		{Name: "acls/describe-without-authorizer", Key: 29, Run: describeACLsInVain},
		{Name: "acls/create-without-authorizer", Key: 30, Run: createACLsInVain},
		{Name: "acls/delete-without-authorizer", Key: 31, Run: deleteACLsInVain},
	}
}

// acl is a binding, or what to look for.
type acl struct {
	title           string
	resource        int8
	pattern         int8
	name            *string
	principal, host *string
	operation       int8
	permission      int8
}

// aclCases are a good one, then one field wrong in each.
func aclCases() []acl {
	good := acl{"good", 2, 3, of("t"), of("User:a"), of("*"), 3, 3}
	with := func(title string, edit func(a *acl)) acl {
		a := good
		a.title = title
		edit(&a)
		return a
	}
	cases := []acl{
		good,
		with("prefixed", func(a *acl) { a.pattern = 4 }),
		with("denied", func(a *acl) { a.permission = 2 }),
		with("any pattern", func(a *acl) { a.pattern = 1 }),
		with("match pattern", func(a *acl) { a.pattern = 2 }),
		with("empty name", func(a *acl) { a.name = of("") }),
		with("null name", func(a *acl) { a.name = nil }),
		with("null principal", func(a *acl) { a.principal = nil }),
		with("null host", func(a *acl) { a.host = nil }),
		with("principal without colon", func(a *acl) { a.principal = of("a") }),
		with("empty principal", func(a *acl) { a.principal = of("") }),
		with("empty host", func(a *acl) { a.host = of("") }),
		with("network as host", func(a *acl) { a.host = of("10.0.0.0/8") }),
		with("cluster of another name", func(a *acl) { a.resource, a.name = 4, of("x") }),
		with("cluster", func(a *acl) { a.resource, a.name = 4, of("kafka-cluster") }),
	}
	for _, n := range []int8{0, 1, 8, 127, -1} {
		cases = append(cases,
			with(fmt.Sprintf("resource type %d", n), func(a *acl) { a.resource = n }),
			with(fmt.Sprintf("pattern type %d", n), func(a *acl) { a.pattern = n }),
			with(fmt.Sprintf("operation %d", n+15), func(a *acl) { a.operation = n + 15 }),
			with(fmt.Sprintf("operation %d", n), func(a *acl) { a.operation = n }),
			with(fmt.Sprintf("permission %d", n), func(a *acl) { a.permission = n }))
	}
	return cases
}

func describeACLsInVain(r *conform.R) {
	for _, v := range conform.Versions(29) {
		for _, a := range aclCases() {
			req := kmsg.NewPtrDescribeACLsRequest()
			req.Version, req.ResourceName, req.Principal, req.Host = v, a.name, a.principal, a.host
			req.ResourceType, req.ResourcePatternType = kmsg.ACLResourceType(a.resource), kmsg.ACLResourcePatternType(a.pattern)
			req.Operation, req.PermissionType = kmsg.ACLOperation(a.operation), kmsg.ACLPermissionType(a.permission)
			r.Send(label(v, "%s", a.title), req)
		}
	}
}

func createACLsInVain(r *conform.R) {
	text := func(s *string) string {
		if s == nil {
			return ""
		}
		return *s
	}
	for _, v := range conform.Versions(30) {
		all := kmsg.NewPtrCreateACLsRequest()
		all.Version = v
		r.Send(label(v, "none"), all)
		for _, a := range aclCases() {
			c := kmsg.NewCreateACLsRequestCreation()
			c.ResourceName, c.Principal, c.Host = text(a.name), text(a.principal), text(a.host)
			c.ResourceType, c.ResourcePatternType = kmsg.ACLResourceType(a.resource), kmsg.ACLResourcePatternType(a.pattern)
			c.Operation, c.PermissionType = kmsg.ACLOperation(a.operation), kmsg.ACLPermissionType(a.permission)
			all.Creations = append(all.Creations, c)
			one := *all
			one.Creations = []kmsg.CreateACLsRequestCreation{c}
			r.Send(label(v, "%s", a.title), &one)
		}
		r.Send(label(v, "all together"), all)
	}
}

func deleteACLsInVain(r *conform.R) {
	for _, v := range conform.Versions(31) {
		all := kmsg.NewPtrDeleteACLsRequest()
		all.Version = v
		r.Send(label(v, "none"), all)
		for _, a := range aclCases() {
			f := kmsg.NewDeleteACLsRequestFilter()
			f.ResourceName, f.Principal, f.Host = a.name, a.principal, a.host
			f.ResourceType, f.ResourcePatternType = kmsg.ACLResourceType(a.resource), kmsg.ACLResourcePatternType(a.pattern)
			f.Operation, f.PermissionType = kmsg.ACLOperation(a.operation), kmsg.ACLPermissionType(a.permission)
			all.Filters = append(all.Filters, f)
			one := *all
			one.Filters = []kmsg.DeleteACLsRequestFilter{f}
			r.Send(label(v, "%s", a.title), &one)
		}
		r.Send(label(v, "all together"), all)
	}
}
