package scenarios

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

func logDirs() []conform.Scenario {
	return []conform.Scenario{
		{Name: "logdirs/describe", Key: 35, Run: describeLogDirs},
		{Name: "logdirs/alter", Key: 34, Needs: []int16{35}, Run: alterLogDirs},
	}
}

// dirsOf is a DescribeLogDirs of these partitions of a topic.
func dirsOf(r *conform.R, version int16, name string, partitions ...int32) *kmsg.DescribeLogDirsRequest {
	req := kmsg.NewPtrDescribeLogDirsRequest()
	req.Version = version
	t := kmsg.NewDescribeLogDirsRequestTopic()
	t.Topic, t.Partitions = r.Name(name), partitions
	req.Topics = append(req.Topics, t)
	return req
}

// ignoreDisk leaves out where a directory is and how large its disk.
func ignoreDisk(r *conform.R) { r.Ignore("Dirs.Dir", "Dirs.TotalBytes", "Dirs.UsableBytes") }

func describeLogDirs(r *conform.R) {
	ignoreDisk(r)
	r.CreateTopic("t", 2)
	for _, v := range conform.Versions(35) {
		r.Send(label(v, "empty partitions"), dirsOf(r, v, "t", 0, 1))
	}
	r.Produce("t", 1, "x", "y")
	for _, v := range conform.Versions(35) {
		r.Send(label(v, "partitions"), dirsOf(r, v, "t", 0, 1))
		r.Send(label(v, "one partition"), dirsOf(r, v, "t", 1))
		r.Send(label(v, "twice"), dirsOf(r, v, "t", 1, 1))
		r.Send(label(v, "unknown partition"), dirsOf(r, v, "t", 1, 9, -1))
		r.Send(label(v, "no partitions"), dirsOf(r, v, "t"))
		r.Send(label(v, "unknown topic"), dirsOf(r, v, "nope", 0))
		r.Send(label(v, "empty name"), dirsOf(r, v, "=", 0))
		twice := dirsOf(r, v, "t", 0)
		twice.Topics = append(twice.Topics, dirsOf(r, v, "t", 1).Topics...)
		r.Send(label(v, "a topic twice"), twice)
		none := dirsOf(r, v, "t")
		none.Topics = []kmsg.DescribeLogDirsRequestTopic{}
		r.Send(label(v, "no topics"), none)
		if v >= 2 {
			tagged := dirsOf(r, v, "t", 1)
			unknownTags(&tagged.UnknownTags)
			unknownTags(&tagged.Topics[0].UnknownTags)
			r.Send(label(v, "unknown tags"), tagged)
		}
		all := dirsOf(r, v, "t")
		all.Topics = nil
		noteDirs(r, label(v, "all"), all)
	}
}

// noteDirs notes what an answer about all topics says of the run's own.
func noteDirs(r *conform.R, label string, req *kmsg.DescribeLogDirsRequest) {
	resp := r.Quiet(req).(*kmsg.DescribeLogDirsResponse)
	own, known := 0, true
	for _, dir := range resp.Dirs {
		known = known && dir.ErrorCode == 0 && (req.Version < 4 || dir.TotalBytes > 0 && dir.UsableBytes > 0)
		for _, t := range dir.Topics {
			if t.Topic == r.Name("t") {
				own += len(t.Partitions)
			}
		}
	}
	r.Note(label, "%d partitions of our own, sizes of disks known: %t, error %d", own, known, resp.ErrorCode)
}

// alterLogDirs asks to move replicas within a broker; the only directory that is known is
// the one in which they are.
func alterLogDirs(r *conform.R) {
	r.CreateTopic("t", 2)
	where := r.Quiet(dirsOf(r, 4, "t", 0)).(*kmsg.DescribeLogDirsResponse).Dirs[0].Dir
	move := func(version int16, dir, name string, partitions ...int32) *kmsg.AlterReplicaLogDirsRequest {
		req := kmsg.NewPtrAlterReplicaLogDirsRequest()
		req.Version = version
		d := kmsg.NewAlterReplicaLogDirsRequestDir()
		d.Dir = dir
		t := kmsg.NewAlterReplicaLogDirsRequestDirTopic()
		t.Topic, t.Partitions = r.Name(name), partitions
		d.Topics = append(d.Topics, t)
		req.Dirs = append(req.Dirs, d)
		return req
	}
	for _, v := range conform.Versions(34) {
		r.Send(label(v, "to where they are"), move(v, where, "t", 0, 1))
		r.Send(label(v, "unknown directory"), move(v, "/no/such/directory", "t", 0, 1))
		r.Send(label(v, "empty directory"), move(v, "", "t", 0))
		r.Send(label(v, "relative directory"), move(v, "x", "t", 0))
		r.Send(label(v, "directory any"), move(v, "any", "t", 0))
		r.Send(label(v, "unknown partition"), move(v, where, "t", 9))
		r.Send(label(v, "unknown topic"), move(v, where, "nope", 0))
		r.Send(label(v, "unknown topic and directory"), move(v, "/no/such/directory", "nope", 0))
		r.Send(label(v, "no partitions"), move(v, where, "t"))
		none := move(v, where, "t")
		none.Dirs = nil
		r.Send(label(v, "none"), none)
		if v >= 2 {
			tagged := move(v, where, "t", 1)
			unknownTags(&tagged.UnknownTags)
			unknownTags(&tagged.Dirs[0].UnknownTags)
			unknownTags(&tagged.Dirs[0].Topics[0].UnknownTags)
			r.Send(label(v, "unknown tags"), tagged)
		}
	}
}
