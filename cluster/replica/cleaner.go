package replica

import "github.com/klamm-mq/klamm/logstore"

// Logs are cleaned where they are: by each replica for itself, whether it leads or follows.

func (m *Manager) initCleaner() {
	if m.opts.Cleaner == nil {
		return
	}
	m.cleaner = logstore.NewCleaner(logstore.CleanerOptions{
		Dirs: m.opts.Dirs, Bounds: m.cleanBounds, Settings: *m.opts.Cleaner,
		Logger: m.opts.Logger, Registerer: m.opts.Registerer,
	})
}

// SetCleaner puts other settings of the log cleaner in force, if there is one.
func (m *Manager) SetCleaner(s logstore.CleanerSettings) {
	if m.cleaner != nil {
		m.cleaner.SetSettings(s)
	}
}

// startCleaner begins when the logs are open and have their roles.
func (m *Manager) startCleaner() {
	if m.cleaner != nil {
		m.cleaner.Start()
	}
}

func (m *Manager) stopCleaner() {
	if m.cleaner != nil {
		m.cleaner.Stop()
	}
}

// cleanBounds tells the cleaner what of a log everybody has, and nobody can take back.
func (m *Manager) cleanBounds(l *logstore.Log) (logstore.CleanBounds, bool) {
	hw, known := m.highWatermarkOf(l)
	if !known {
		return logstore.CleanBounds{}, false
	}
	return logstore.CleanBounds{HighWatermark: hw, LastStable: l.LastStable(hw)}, true
}
