package scenarios

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

func manageGroups() []conform.Scenario {
	group := []int16{8, 9, 10, 11, 12, 13, 14, 15, 16, 42}
	return []conform.Scenario{
		{Name: "describe_groups/states", Key: 15, Needs: group, Run: describeStates},
		{Name: "list_groups/filters", Key: 16, Needs: group, Alone: true, Run: listGroups},
		{Name: "delete_groups/states", Key: 42, Needs: group, Run: deleteGroups},
		{Name: "delete_groups/without_name", Key: 42, Needs: group, Alone: true, Run: groupWithoutName},
	}
}

func describeStates(r *conform.R) {
	r.CreateTopic("a", 2)
	for _, g := range []string{"g", "simple", "none"} {
		awaitCoordinator(r, g)
	}
	r.OwnsGroup("simple")
	r.Ignore("Groups.Members.ClientHost")
	r.Send("commit", commit(r, 9, r.Name("simple"), "a", 0, 7))
	m := newMember(r, "g", "m")
	m.doJoin("join", 9)
	all := func(what string) {
		for _, v := range conform.Versions(15) {
			for _, operations := range []bool{false, true} {
				if operations && v < 3 {
					continue
				}
				req := kmsg.NewPtrDescribeGroupsRequest()
				req.Version, req.IncludeAuthorizedOperations = v, operations
				req.Groups = []string{r.Name("g"), r.Name("simple"), r.Name("none")}
				r.Send(label(v, "%s, operations %v", what, operations), req)
			}
		}
	}
	all("completing")
	m.send("sync", m.sync(5, m, "all"))
	m.send("commit as member", m.commit(9, "a", 1, 3)) // a group without offsets may be cleaned up at any time
	all("stable")
	m.send("leave", leave(5, m.group, m))
	all("empty")
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Version = 6
	r.Send("no groups", req)
	req.Groups = []string{r.Name("g"), r.Name("g")}
	r.Send("the same twice", req)
}

// listGroups looks at its own groups only.
func listGroups(r *conform.R) {
	r.CreateTopic("a", 2)
	for _, g := range []string{"g", "simple"} {
		awaitCoordinator(r, g)
	}
	r.OwnsGroup("simple")
	r.Send("commit", commit(r, 9, r.Name("simple"), "a", 0, 7))
	m := newMember(r, "g", "m")
	m.doJoin("join", 9)
	m.send("sync", m.sync(5, m, "all"))
	list := func(version int16, what string, states, types []string) {
		req := kmsg.NewPtrListGroupsRequest()
		req.Version, req.StatesFilter, req.TypesFilter = version, states, types
		r.SendOnly(label(version, "%s", what), req, func(resp kmsg.Response) {
			l := resp.(*kmsg.ListGroupsResponse)
			mine := []string{r.Name("g"), r.Name("simple")}
			l.Groups = slices.DeleteFunc(append([]kmsg.ListGroupsResponseGroup{}, l.Groups...), func(g kmsg.ListGroupsResponseGroup) bool { return !slices.Contains(mine, g.Group) })
			if len(l.Groups) == 0 {
				l.Groups = nil // as if none had come
			}
		})
	}
	for _, v := range conform.Versions(16) {
		list(v, "all", nil, nil)
		if v >= 4 {
			for _, states := range [][]string{{"Stable"}, {"Empty"}, {"stable"}, {"EMPTY", "Stable"}, {"Nonsense"}, {"Dead"}, {"Assigning"}, {""}} {
				list(v, "states "+states[0], states, nil)
			}
		}
		if v >= 5 {
			for _, types := range [][]string{{"classic"}, {"Classic"}, {"consumer"}, {"share", "classic"}, {"streams"}, {"nonsense"}, {"unknown"}, {""}} {
				list(v, "types "+types[0], nil, types)
			}
			list(v, "both", []string{"Empty"}, []string{"classic"})
		}
	}
	m.send("leave", leave(5, m.group, m))
	list(5, "after leaving", nil, nil)
}

func deleteGroups(r *conform.R) {
	r.CreateTopic("a", 2)
	for _, v := range conform.Versions(42) {
		for _, g := range []string{"g", "simple", "empty", "none"} {
			awaitCoordinator(r, g)
		}
		r.OwnsGroup("simple")
		r.Send(label(v, "commit"), commit(r, 9, r.Name("simple"), "a", 0, 7))
		m, e := newMember(r, "g", "m"), newMember(r, "empty", "e")
		m.doJoin(label(v, "join"), 9)
		e.doJoin(label(v, "join the other"), 9)
		e.send(label(v, "sync the other"), e.sync(5, e, "all"))
		e.send(label(v, "commit to the other"), e.commit(9, "a", 0, 1))
		e.send(label(v, "leave the other"), leave(5, e.group, e))
		req := kmsg.NewPtrDeleteGroupsRequest()
		req.Version = v
		r.Send(label(v, "no groups"), req)
		req.Groups = []string{r.Name("g"), r.Name("simple"), r.Name("empty"), r.Name("none")}
		r.Send(label(v, "of all kinds"), req)
		r.Send(label(v, "again"), req)
		req.Groups = []string{r.Name("none"), r.Name("none")}
		r.Send(label(v, "the same twice"), req)
		m.send(label(v, "member still there"), m.heartbeat(4))
		m.send(label(v, "leave"), leave(5, m.group, m))
		r.Send(label(v, "offsets"), fetchOffsets(r, 7, r.Name("simple"), "a"))
	}
}

// groupWithoutName is the group whose id is empty, which all clients share.
func groupWithoutName(r *conform.R) {
	r.CreateTopic("a", 2)
	awaitCoordinator(r, "g")
	all := func(what string) {
		for _, v := range conform.Versions(15) {
			req := kmsg.NewPtrDescribeGroupsRequest()
			req.Version, req.Groups = v, []string{""}
			r.Send(label(v, "%s", what), req)
		}
	}
	del := kmsg.NewPtrDeleteGroupsRequest()
	del.Version, del.Groups = 2, []string{""}
	r.Quiet(del)
	all("gone")
	r.Send("commit", commit(r, 9, "", "a", 0, 7))
	all("with an offset")
	r.Send("offsets", fetchOffsets(r, 7, "", "a"))
	for _, v := range conform.Versions(42) {
		del.Version = v
		r.Send(label(v, "delete"), del)
	}
}
