package broker_test

import (
	"testing"
	"time"
)

// A controller that joins by itself and whose metadata log was deleted comes back as another
// member. It asks for that one's vote, not for that of its disk, and never against itself.
func TestControllerWithoutItsMetadataJoinsByItself(t *testing.T) {
	growing(t, threeCombined, func(c *nodes) {
		for _, id := range []int32{2, 3} {
			c.all[id].Machine.Settings = append(c.all[id].Machine.Settings, "controller.quorum.auto.join.enable=true")
		}
		c.start(2, 3)
		dirs := c.wantQuorum(1, "1 2 3")
		c.kill(3)
		c.all[3].forgetMetadata(t)
		c.start(3)
		c.eventually("it votes under another id", 30*time.Second, func() bool {
			text, now := c.quorumOf(2)
			return text == "1 2 3" && now[3] != dirs[3]
		})
		_, dirs = c.quorumOf(2)
		for range 100 {
			time.Sleep(200 * time.Millisecond)
			if text, now := c.quorumOf(2); text != "1 2 3" || now[3] != dirs[3] {
				c.t.Fatalf("it had itself removed: %s, %v, was %v", text, now, dirs)
			}
		}
		if err := c.removeVoter(1, 3, dirs[3]); err != nil {
			c.t.Fatal(err)
		}
		c.wantQuorum(2, "1 2 3")
	})
}
