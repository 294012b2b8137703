package replica

import (
	"sync"
	"time"
)

// creationPause is how long after a failure a log is created again.
const creationPause = time.Second

// creations remembers logs that could not be created for a reason that passes, such as a
// full disk: the topic exists in metadata by then, and nobody else would come back to it.
// There is a timer while there are any.
type creations struct {
	again func([]TopicIDPartition)

	mu      sync.Mutex
	pending []TopicIDPartition // bounded by the partitions that this broker should have
	timer   *time.Timer
	stopped bool
	running sync.WaitGroup // Add only under mu and before stopped
}

func (c *creations) init(again func([]TopicIDPartition)) { c.again = again }

// add has a log created again after a pause.
func (c *creations) add(id TopicIDPartition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending = append(c.pending, id); len(c.pending) > 1 || c.stopped {
		return
	}
	if c.timer == nil {
		c.timer = time.AfterFunc(creationPause, c.fire)
		return
	}
	c.timer.Reset(creationPause)
}

func (c *creations) fire() {
	c.mu.Lock()
	if c.stopped {
		c.mu.Unlock()
		return
	}
	c.running.Add(1)
	defer c.running.Done()
	ids := c.pending
	c.pending = nil
	c.mu.Unlock()
	c.again(ids)
}

// stop returns when nothing is being created, and nothing will be.
func (c *creations) stop() {
	c.mu.Lock()
	c.stopped = true
	if c.timer != nil {
		c.timer.Stop()
	}
	c.mu.Unlock()
	c.running.Wait()
}

// createAgain creates logs that are still wanted.
func (m *Manager) createAgain(ids []TopicIDPartition) {
	m.applying.Lock()
	defer m.applying.Unlock()
	defer m.wakeLate()
	now, image := time.Now(), m.image.Load()
	for _, id := range ids {
		p := image.Partition(id.TopicID, id.Partition)
		if placed, _ := m.placement(p); !placed {
			continue
		}
		topic := image.TopicByID(id.TopicID).Name
		m.begin(now, id, topic, p, m.topicConfig(image, topic), nil)
	}
}
